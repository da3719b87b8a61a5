//! The controls there are, by name.

/// A congestion control that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its name here and in the simulator.
    pub name: &'static str,
    /// Its name in the kernel: for `sysctl` and `TCP_CONGESTION`.
    pub kernel_name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Whether it looks at the connection's other subflows.
    pub is_coupled: bool,
}

/// Every control that can be loaded.
pub const CONTROLS: &[Control] = &[
    Control {
        name: "compound",
        kernel_name: "weft_compound",
        about: "Reno and a delay-based window beside it (draft-sridharan-tcpm-ctcp)",
        is_coupled: false,
    },
    Control {
        name: "lia",
        kernel_name: "weft_lia",
        about: "increases linked across the subflows (RFC 6356)",
        is_coupled: true,
    },
    Control {
        name: "olia",
        kernel_name: "weft_olia",
        about: "linked increases that move to the best paths (draft-khalili)",
        is_coupled: true,
    },
    Control {
        name: "balia",
        kernel_name: "weft_balia",
        about: "balances friendliness and responsiveness (draft-walid)",
        is_coupled: true,
    },
];

impl Control {
    /// The control of that name, its own or the kernel's.
    pub fn find(name: &str) -> Option<Self> {
        CONTROLS.iter().find(|one| one.name == name || one.kernel_name == name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_and_find_their_control() {
        for control in CONTROLS {
            assert!(control.kernel_name.len() < 16, "TCP_CA_NAME_MAX");
            assert_eq!(control.kernel_name, format!("weft_{}", control.name));
            assert_eq!(Control::find(control.name), Some(*control));
            assert_eq!(Control::find(control.kernel_name), Some(*control));
        }
        assert_eq!(Control::find("cubic"), None);
    }
}
