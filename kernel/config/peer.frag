# Over min.frag: network cards of QEMU, for transfers between two machines (kernel/test --peer).
CONFIG_PCI_MSI=y
CONFIG_VIRTIO_MENU=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_NET=y
