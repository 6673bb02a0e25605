//! The functions of atomic operations (docs/protocol.md, section 10.1) on
//! elements given as bytes. What makes a change indivisible is not decided
//! here but where memory is touched.
//!
//! Elements are little-endian, on the wire and in memory.

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
    /// Floating point, 32 bits.
    F32,
    /// Floating point, 64 bits.
    F64,
    /// Complex, twice 32 bits.
    C32,
    /// Complex, twice 64 bits.
    C64,
    /// Signed, 128 bits.
    I128,
    /// Unsigned, 128 bits.
    U128,
}

/// What is made of an element, its operand and its comparand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The lesser of both.
    Min,
    /// The greater of both.
    Max,
    /// Their sum; integers wrap.
    Sum,
    /// Their product; integers wrap.
    Product,
    /// 1 if either is not zero, else 0.
    LogicalOr,
    /// 1 if both are not zero, else 0.
    LogicalAnd,
    /// Bit by bit.
    BitOr,
    /// Bit by bit.
    BitAnd,
    /// 1 if exactly one is not zero, else 0.
    LogicalXor,
    /// Bit by bit.
    BitXor,
    /// The element, unchanged.
    Read,
    /// The operand.
    Write,
    /// The operand if the comparand equals the element.
    SwapIfEqual,
    /// The operand if the comparand differs from the element.
    SwapIfNotEqual,
    /// The operand if the comparand is less than the element or equal.
    SwapIfLessOrEqual,
    /// The operand if the comparand is less than the element.
    SwapIfLess,
    /// The operand if the comparand is greater than the element or equal.
    SwapIfGreaterOrEqual,
    /// The operand if the comparand is greater than the element.
    SwapIfGreater,
    /// The operand's bits where the comparand has ones.
    MaskedSwap,
}

const ELEMENTS: [Element; 14] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::U16,
    Element::I32,
    Element::U32,
    Element::I64,
    Element::U64,
    Element::F32,
    Element::F64,
    Element::C32,
    Element::C64,
    Element::I128,
    Element::U128,
];

const FUNCTIONS: [Function; 19] = [
    Function::Min,
    Function::Max,
    Function::Sum,
    Function::Product,
    Function::LogicalOr,
    Function::LogicalAnd,
    Function::BitOr,
    Function::BitAnd,
    Function::LogicalXor,
    Function::BitXor,
    Function::Read,
    Function::Write,
    Function::SwapIfEqual,
    Function::SwapIfNotEqual,
    Function::SwapIfLessOrEqual,
    Function::SwapIfLess,
    Function::SwapIfGreaterOrEqual,
    Function::SwapIfGreater,
    Function::MaskedSwap,
];

impl Element {
    /// The element with that number on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        ELEMENTS.get(usize::from(code)).copied()
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no element is empty")]
    pub fn len(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C32 => 8,
            Self::C64 | Self::I128 | Self::U128 => 16,
        }
    }

    fn is_complex(self) -> bool {
        matches!(self, Self::C32 | Self::C64)
    }

    fn is_integer(self) -> bool {
        !self.is_complex() && !matches!(self, Self::F32 | Self::F64)
    }
}

impl Function {
    /// The function with that number on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        FUNCTIONS.get(usize::from(code)).copied()
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Whether it compares the element with a comparand.
    #[must_use]
    pub fn compares(self) -> bool {
        self as u8 >= Self::SwapIfEqual as u8
    }

    /// Whether it makes sense without fetching.
    #[must_use]
    pub fn only_fetches(self) -> bool {
        self == Self::Read || self.compares()
    }

    /// Whether it is defined for elements of that type.
    #[must_use]
    pub fn takes(self, element: Element) -> bool {
        match self {
            Self::BitOr | Self::BitAnd | Self::BitXor | Self::MaskedSwap => element.is_integer(),
            Self::Min
            | Self::Max
            | Self::SwapIfLessOrEqual
            | Self::SwapIfLess
            | Self::SwapIfGreaterOrEqual
            | Self::SwapIfGreater => !element.is_complex(),
            _ => true,
        }
    }
}

/// What a type must offer so that functions can be applied to it.
trait Number: Copy + PartialEq {
    const ZERO: Self;
    const ONE: Self;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// Whether it is less; false where there is no order.
    fn less(self, other: Self) -> bool;
    /// Both by `f`, bit by bit; unchanged where bits mean nothing.
    fn bits(self, other: Self, f: fn(u8, u8) -> u8) -> Self;

    fn truth(is: bool) -> Self {
        if is { Self::ONE } else { Self::ZERO }
    }

    fn is_true(self) -> bool {
        self != Self::ZERO
    }
}

macro_rules! read_write {
    () => {
        fn read(bytes: &[u8]) -> Self {
            let mut own = [0; size_of::<Self>()];
            own.copy_from_slice(&bytes[..size_of::<Self>()]);
            Self::from_le_bytes(own)
        }
        fn write(self, bytes: &mut [u8]) {
            bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
        }
        fn less(self, other: Self) -> bool {
            self < other
        }
    };
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            read_write!();
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn bits(self, other: Self, f: fn(u8, u8) -> u8) -> Self {
                let mut bytes = self.to_le_bytes();
                for (mine, theirs) in bytes.iter_mut().zip(other.to_le_bytes()) {
                    *mine = f(*mine, theirs);
                }
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            read_write!();
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn product(self, other: Self) -> Self {
                self * other
            }
            fn bits(self, _: Self, _: fn(u8, u8) -> u8) -> Self {
                self
            }
        }
    )*};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);
floats!(f32, f64);

/// A complex number: real part, imaginary part.
#[derive(Clone, Copy, PartialEq)]
struct Complex<T>(T, T);

macro_rules! complex {
    ($($t:ty),*) => {$(
        impl Number for Complex<$t> {
            const ZERO: Self = Self(0.0, 0.0);
            const ONE: Self = Self(1.0, 0.0);
            fn read(bytes: &[u8]) -> Self {
                Self(<$t>::read(bytes), <$t>::read(&bytes[size_of::<$t>()..]))
            }
            fn write(self, bytes: &mut [u8]) {
                self.0.write(bytes);
                self.1.write(&mut bytes[size_of::<$t>()..]);
            }
            fn sum(self, other: Self) -> Self {
                Self(self.0 + other.0, self.1 + other.1)
            }
            fn product(self, other: Self) -> Self {
                let (a, b, c, d) = (self.0, self.1, other.0, other.1);
                Self(a * c - b * d, a * d + b * c)
            }
            fn less(self, _: Self) -> bool {
                false
            }
            fn bits(self, _: Self, _: fn(u8, u8) -> u8) -> Self {
                self
            }
        }
    )*};
}

complex!(f32, f64);

/// What `function` makes of the element in `place`; `comparand` is not looked
/// at by functions that do not compare.
///
/// # Panics
/// When a slice that the function uses is shorter than the element.
pub(crate) fn apply(
    function: Function,
    element: Element,
    place: &mut [u8],
    operand: &[u8],
    comparand: &[u8],
) {
    match element {
        Element::I8 => apply_to::<i8>(function, place, operand, comparand),
        Element::U8 => apply_to::<u8>(function, place, operand, comparand),
        Element::I16 => apply_to::<i16>(function, place, operand, comparand),
        Element::U16 => apply_to::<u16>(function, place, operand, comparand),
        Element::I32 => apply_to::<i32>(function, place, operand, comparand),
        Element::U32 => apply_to::<u32>(function, place, operand, comparand),
        Element::I64 => apply_to::<i64>(function, place, operand, comparand),
        Element::U64 => apply_to::<u64>(function, place, operand, comparand),
        Element::F32 => apply_to::<f32>(function, place, operand, comparand),
        Element::F64 => apply_to::<f64>(function, place, operand, comparand),
        Element::C32 => apply_to::<Complex<f32>>(function, place, operand, comparand),
        Element::C64 => apply_to::<Complex<f64>>(function, place, operand, comparand),
        Element::I128 => apply_to::<i128>(function, place, operand, comparand),
        Element::U128 => apply_to::<u128>(function, place, operand, comparand),
    }
}

/// Applies `function` to each element of `places` and the operand beside it.
///
/// # Panics
/// When the operands are shorter, or the function compares.
pub(crate) fn combine(function: Function, element: Element, places: &mut [u8], operands: &[u8]) {
    assert!(!function.compares(), "there are no comparands");
    let len = element.len();
    let pairs = places.chunks_exact_mut(len).zip(operands.chunks_exact(len));
    pairs.for_each(|(place, operand)| apply(function, element, place, operand, &[]));
}

fn apply_to<T: Number>(function: Function, place: &mut [u8], operand: &[u8], comparand: &[u8]) {
    if function == Function::Read {
        return;
    }
    let (old, new) = (T::read(place), T::read(operand));
    let chosen = |is: bool| if is { new } else { old };
    let compared = || T::read(comparand);
    let result = match function {
        Function::Read => old,
        Function::Write => new,
        Function::Min => chosen(new.less(old)),
        Function::Max => chosen(old.less(new)),
        Function::Sum => old.sum(new),
        Function::Product => old.product(new),
        Function::LogicalOr => T::truth(old.is_true() || new.is_true()),
        Function::LogicalAnd => T::truth(old.is_true() && new.is_true()),
        Function::LogicalXor => T::truth(old.is_true() != new.is_true()),
        Function::BitOr => old.bits(new, |a, b| a | b),
        Function::BitAnd => old.bits(new, |a, b| a & b),
        Function::BitXor => old.bits(new, |a, b| a ^ b),
        Function::SwapIfEqual => chosen(compared() == old),
        Function::SwapIfNotEqual => chosen(compared() != old),
        Function::SwapIfLessOrEqual => chosen(compared().less(old) || compared() == old),
        Function::SwapIfLess => chosen(compared().less(old)),
        Function::SwapIfGreaterOrEqual => chosen(old.less(compared()) || compared() == old),
        Function::SwapIfGreater => chosen(old.less(compared())),
        Function::MaskedSwap => {
            let mask = compared();
            let kept = old.bits(mask, |a, m| a & !m);
            kept.bits(new.bits(mask, |b, m| b & m), |a, b| a | b)
        }
    };
    result.write(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `function` on 64-bit floats or integers.
    fn f64s(function: Function, old: f64, operand: f64, comparand: f64) -> f64 {
        let mut place = old.to_le_bytes();
        let (operand, comparand) = (operand.to_le_bytes(), comparand.to_le_bytes());
        apply(function, Element::F64, &mut place, &operand, &comparand);
        f64::from_le_bytes(place)
    }

    fn i32s(function: Function, old: i32, operand: i32, comparand: i32) -> i32 {
        let mut place = old.to_le_bytes();
        let (operand, comparand) = (operand.to_le_bytes(), comparand.to_le_bytes());
        apply(function, Element::I32, &mut place, &operand, &comparand);
        i32::from_le_bytes(place)
    }

    #[test]
    fn codes_are_positions() {
        for code in 0..=u8::MAX {
            assert!(Element::from_code(code).is_none_or(|element| element.code() == code));
            assert!(Function::from_code(code).is_none_or(|function| function.code() == code));
        }
        assert_eq!(Element::from_code(14), None);
        assert_eq!(Function::from_code(19), None);
    }

    #[test]
    fn functions_are_those_of_the_table() {
        use Function::*;
        for (function, old, operand, comparand, new) in [
            (Min, 3, -2, 0, -2),
            (Max, 3, -2, 0, 3),
            (Sum, i32::MAX, 1, 0, i32::MIN),
            (Product, 7, -3, 0, -21),
            (LogicalOr, 0, 5, 0, 1),
            (LogicalAnd, 4, 0, 0, 0),
            (LogicalXor, 4, 5, 0, 0),
            (BitOr, 0b1100, 0b1010, 0, 0b1110),
            (BitAnd, 0b1100, 0b1010, 0, 0b1000),
            (BitXor, 0b1100, 0b1010, 0, 0b0110),
            (Read, 5, 6, 7, 5),
            (Write, 5, 6, 7, 6),
            (SwapIfEqual, 5, 6, 5, 6),
            (SwapIfEqual, 5, 6, 4, 5),
            (SwapIfNotEqual, 5, 6, 5, 5),
            (SwapIfNotEqual, 5, 6, 4, 6),
            (SwapIfLessOrEqual, 5, 6, 5, 6),
            (SwapIfLessOrEqual, 5, 6, 7, 5),
            (SwapIfLess, 5, 6, 4, 6),
            (SwapIfLess, 5, 6, 5, 5),
            (SwapIfGreaterOrEqual, 5, 6, 5, 6),
            (SwapIfGreaterOrEqual, 5, 6, 4, 5),
            (SwapIfGreater, 5, 6, 7, 6),
            (SwapIfGreater, 5, 6, 5, 5),
            (MaskedSwap, 0b1100, 0b1010, 0b0110, 0b1010),
        ] {
            assert_eq!(i32s(function, old, operand, comparand), new, "{function:?}");
        }
        assert_eq!(f64s(Sum, 1.5, 2.0, 0.0), 3.5);
        assert_eq!(f64s(Min, 1.5, f64::NAN, 0.0), 1.5);
        assert_eq!(f64s(LogicalAnd, 1.5, 2.0, 0.0), 1.0);
        assert_eq!(f64s(SwapIfGreater, 1.5, 9.0, 2.0), 9.0);
    }

    #[test]
    fn complex_numbers_multiply() {
        let bytes = |re: f32, im: f32| [re.to_le_bytes(), im.to_le_bytes()].concat();
        let mut place = bytes(1.0, 2.0);
        apply(Function::Product, Element::C32, &mut place, &bytes(3.0, -1.0), &[]);
        assert_eq!(place, bytes(5.0, 5.0));
        assert!(!Function::Min.takes(Element::C32) && Function::Product.takes(Element::C64));
        assert!(!Function::BitOr.takes(Element::F64) && Function::MaskedSwap.takes(Element::I128));
    }
}
