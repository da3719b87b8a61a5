//! Numbers that wrap: labels of cohorts and arrival numbers of packets, compared as serial numbers
//! (RFC 1982).

macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl $name {
            /// The number `n` after this one (RFC 1982 §3.1).
            pub const fn plus(self, n: u32) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// How many numbers lie from `earlier` up to this one, going up and around.
            pub const fn since(self, earlier: Self) -> u32 {
                self.0.wrapping_sub(earlier.0)
            }

            /// Whether this number comes before `other`: it is less than half the circle behind
            /// (RFC 1982 §3.2). Of two numbers half the circle apart neither comes first, and the
            /// relation is an order only within half of the circle.
            pub const fn is_before(self, other: Self) -> bool {
                (other.0.wrapping_sub(self.0) as i32) > 0
            }

            /// Whether this number is at most `behind` before `newest` and at most `ahead` after
            /// it. What is outside is no number that an honest peer uses now.
            pub const fn is_near(self, newest: Self, behind: u32, ahead: u32) -> bool {
                if newest.is_before(self) {
                    self.since(newest) <= ahead
                } else {
                    newest.since(self) <= behind
                }
            }
        }
    };
}

serial_number! {
    /// A cohort's label, the number of its interval T (COTAG §III-C). It counts intervals, empty
    /// ones too: at the default of 10 ms half the circle is 248 days, so that a flow that has been
    /// silent for long does not seem to go back.
    Label
}

serial_number! {
    /// A packet's place in the order in which its flow's packets came to the gateway, the order in
    /// which the device releases them.
    Arrival
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_wrap() {
        let last = Label(u32::MAX);
        assert_eq!(last.plus(1), Label(0));
        assert!(last.is_before(Label(0)) && last.is_before(Label(5)));
        assert!(!Label(0).is_before(last) && !last.is_before(last));
        assert_eq!(Label(3).since(last), 4);
        // Half the circle apart: neither.
        assert!(!Label(0).is_before(Label(1 << 31)) && !Label(1 << 31).is_before(Label(0)));
        assert!(Label(0).is_before(Label((1 << 31) - 1)));
    }

    #[test]
    fn what_is_near() {
        let newest = Label(1);
        assert!(newest.is_near(newest, 0, 0));
        assert!(Label(u32::MAX).is_near(newest, 2, 0) && !Label(u32::MAX).is_near(newest, 1, 9));
        assert!(Label(4).is_near(newest, 0, 3) && !Label(5).is_near(newest, 9, 3));
        assert!(!Label(1 << 31 | 1).is_near(newest, 1000, 1000));
    }

    proptest! {
        #[test]
        fn later_numbers_come_after(start: u32, step in 1..1_u32 << 31) {
            let (early, late) = (Arrival(start), Arrival(start).plus(step));
            prop_assert!(early.is_before(late) && !late.is_before(early));
            prop_assert_eq!(late.since(early), step);
            prop_assert!(late.is_near(early, 0, step) && !late.is_near(early, u32::MAX, step - 1));
        }
    }
}
