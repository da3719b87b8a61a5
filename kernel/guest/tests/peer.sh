# One end of transfers to another machine, by two network cards; see ../peer.sh.
ip netns add P
ip link set eth0 netns P
ip link set eth1 netns P
on P sh /guest/peer.sh "$WEFT_side" eth0 eth1 "${WEFT_names:-default,forward,fbdt}"
