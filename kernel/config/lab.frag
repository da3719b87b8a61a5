# Over min.frag: what `weftline lab` needs in a guest. Its programs wait by timerfd, and its links have
# IPv6 addresses, too.
CONFIG_TIMERFD=y
CONFIG_IPV6=y
