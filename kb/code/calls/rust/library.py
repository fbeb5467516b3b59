"""What methods and functions of the standard library give, as far as callees in a project depend on it.

A result is written as a type: `0`, `1` are the type arguments of the receiver, `self` is the receiver, `a0` the first
argument, `c0` what the closure in the first argument gives, `t` the type in `::<...>`, `e` an item of the first
argument, `d` what `0` dereferences to. `Iter<T>` is any iterator. Source: doc.rust-lang.org/std.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kb.code.calls.rust.types import Type

STANDARD = frozenset(["std", "core", "alloc"])
PRELUDE = frozenset([
    "Option", "Some", "None", "Result", "Ok", "Err", "Vec", "String", "Box", "ToString", "ToOwned", "Iterator",
    "IntoIterator", "DoubleEndedIterator", "ExactSizeIterator", "Extend", "FromIterator", "Into", "From", "TryFrom",
    "TryInto", "AsRef", "AsMut", "Default", "Clone", "Copy", "Send", "Sync", "Sized", "Drop", "Fn", "FnMut", "FnOnce",
    "PartialEq", "Eq", "PartialOrd", "Ord", "drop", "Unpin", "Debug", "Hash"
])  # fmt: skip
PRIMITIVES = frozenset([
    "bool", "char", "str", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize",
    "f32", "f64"
])  # fmt: skip
POINTERS = frozenset([
    "Box", "Rc", "Arc", "Pin", "Ref", "RefMut", "MutexGuard", "RwLockReadGuard", "RwLockWriteGuard", "Cow",
    "ManuallyDrop", "LazyLock", "LazyCell", "Lazy", "AssertUnwindSafe", "Saturating", "PeekMut", "SpinLockGuard"
])  # fmt: skip
"""Types that dereference to their first argument."""
FUNCTIONS = frozenset(["Fn", "FnMut", "FnOnce", "AsyncFn", "AsyncFnMut", "AsyncFnOnce"])
WRAPPERS = frozenset([
    "Box", "Rc", "Arc", "Cell", "RefCell", "Mutex", "RwLock", "Pin", "ManuallyDrop", "Some", "UnsafeCell",
    "AssertUnwindSafe", "Wrapping", "Reverse", "Saturating", "LazyCell", "LazyLock"
])  # fmt: skip
"""`new` of them takes the value that they hold."""
_SEQUENCE = """
 iter=Iter<0> iter_mut=Iter<0> into_iter=Iter<0> drain=Iter<0> first=Option<0> last=Option<0> first_mut=Option<0>
 last_mut=Option<0> get=Option<0> get_mut=Option<0> get_unchecked=0 get_unchecked_mut=0 pop=Option<0> remove=0
 swap_remove=0 as_slice=self as_mut_slice=self to_vec=Vec<0> into_boxed_slice=self chunks=Iter<[0]> windows=Iter<[0]>
 chunks_exact=Iter<[0]> split_at=(self,self) split_at_mut=(self,self) split_first=Option<(0,self)>
 split_last=Option<(0,self)> split_off=self into_vec=Vec<0> as_ref=self as_mut=self leak=self concat=0 len=usize
 is_empty=bool contains=bool binary_search=Result<usize,usize> binary_search_by=Result<usize,usize> iter_max=0
 binary_search_by_key=Result<usize,usize> into_inner=self clear push insert extend truncate reserve sort sort_by
 sort_by_key sort_unstable sort_unstable_by sort_unstable_by_key dedup dedup_by dedup_by_key retain resize append swap
 reverse fill copy_from_slice clone_from_slice extend_from_slice starts_with=bool ends_with=bool capacity=usize join
 as_ptr=*0 as_mut_ptr=*0 set_len rotate_left rotate_right split_first_mut=Option<(0,self)>
 split_last_mut=Option<(0,self)>
 chunks_mut=Iter<[0]> splice=Iter<0> retain_mut push_within_capacity shrink_to_fit partition_point=usize
 copy_within repeat=Vec<0> split=Iter<[0]> rchunks=Iter<[0]> resize_with fill_with as_bytes=[u8] map=[c0]
"""
_OPTION = """
 unwrap=0 expect=0 unwrap_or=0 unwrap_or_default=0 unwrap_or_else=0 unwrap_unchecked=0 as_ref=self as_mut=self
 as_deref=Option<d> as_deref_mut=Option<d> as_pin_mut=self map=Option<c0> and_then=c0 or_else=self or=self
 ok_or=Result<0,a0> ok_or_else=Result<0,c0> take=self replace=self cloned=self copied=self filter=self iter=Iter<0>
 iter_mut=Iter<0> into_iter=Iter<0> get_or_insert_with=0 get_or_insert=0 insert=0 is_some=bool is_none=bool
 is_some_and=bool map_or=a0 map_or_else=c0 flatten=0 xor=self and=a0 inspect=self zip=Option<(0,a0)> is_none_or=bool
 take_if=self transpose
"""
_RESULT = """
 unwrap=0 expect=0 unwrap_or=0 unwrap_or_default=0 unwrap_or_else=0 unwrap_unchecked=0 unwrap_err=1 expect_err=1
 as_ref=self as_mut=self as_deref=Result<d,1> map=Result<c0,1> map_err=Result<0,c0> and_then=c0 or_else=Result<0,1>
 ok=Option<0> err=Option<1> is_ok=bool is_err=bool is_ok_and=bool is_err_and=bool map_or=a0 map_or_else=c0 iter=Iter<0>
 into_iter=Iter<0> and=a0 or=self copied=self cloned=self inspect=self inspect_err=self flatten=0 transpose
"""
_ITER = """
 next=Option<0> next_back=Option<0> last=Option<0> nth=Option<0> map=Iter<c0> filter=self filter_map=Iter<c0.0>
 flat_map=Iter<c0.e> flatten=Iter<0.e> enumerate=Iter<(usize,0)> zip=Iter<(0,e)> chain=self rev=self skip=self
 take=self skip_while=self take_while=self map_while=Iter<c0.0> peekable=self fuse=self inspect=self cloned=self
 copied=self by_ref=self cycle=self step_by=self find=Option<0> find_map=c0 max_by_key=Option<0> min_by_key=Option<0>
 max_by=Option<0> min_by=Option<0> max=Option<0> min=Option<0> peek=Option<0> peek_mut=Option<0> collect=t fold=a0
 reduce=Option<0> sum=t product=t count=usize all=bool any=bool position=Option<usize> rposition=Option<usize>
 for_each partition=(t,t) unzip=t scan=Iter<c1.0> try_fold try_for_each=c0 next_if=Option<0> next_if_eq=Option<0>
 into_iter=self rfind=Option<0> size_hint len=usize as_slice=[0] as_str=str eq=bool ne=bool lt=bool cmp rfold=a0
 try_collect nth_back=Option<0> is_empty=bool advance_by is_sorted=bool map_windows array_chunks iter=self
"""
_MAP = """
 get=Option<1> get_mut=Option<1> remove=Option<1> insert=Option<1> entry=Entry<0,1> keys=Iter<0> values=Iter<1>
 values_mut=Iter<1> into_values=Iter<1> into_keys=Iter<0> iter=Iter<(0,1)> iter_mut=Iter<(0,1)> into_iter=Iter<(0,1)>
 drain=Iter<(0,1)> get_key_value=Option<(0,1)> remove_entry=Option<(0,1)> contains_key=bool len=usize is_empty=bool
 first_key_value=Option<(0,1)> last_key_value=Option<(0,1)> pop_first=Option<(0,1)> pop_last=Option<(0,1)>
 range=Iter<(0,1)> range_mut=Iter<(0,1)> split_off=self first_entry last_entry clear extend retain reserve append
 get_or_insert_with=1 get_or_insert=1 shift_remove=Option<1> swap_remove=Option<1> get_index=Option<(0,1)> hasher
"""
_SET = """
 get=Option<0> take=Option<0> iter=Iter<0> into_iter=Iter<0> drain=Iter<0> first=Option<0> last=Option<0>
 pop_first=Option<0> pop_last=Option<0> union=Iter<0> difference=Iter<0> intersection=Iter<0> contains=bool len=usize
 is_empty=bool insert=bool remove=bool replace=Option<0> range=Iter<0> symmetric_difference=Iter<0> split_off=self
 clear extend retain reserve append is_subset=bool is_superset=bool is_disjoint=bool peek=Option<0> pop=Option<0>
 peek_mut=Option<PeekMut<0>> push into_sorted_vec=Vec<0> into_vec=Vec<0>
"""
_STR = """
 chars=Iter<char> bytes=Iter<u8> char_indices=Iter<(usize,char)> lines=Iter<str> split=Iter<str> rsplit=Iter<str>
 splitn=Iter<str> rsplitn=Iter<str> split_whitespace=Iter<str> split_terminator=Iter<str> matches=Iter<str>
 split_inclusive=Iter<str> match_indices=Iter<(usize,str)> trim=str trim_start=str trim_end=str trim_matches=str
 trim_start_matches=str trim_end_matches=str strip_prefix=Option<str> strip_suffix=Option<str> find=Option<usize>
 rfind=Option<usize> split_once=Option<(str,str)> rsplit_once=Option<(str,str)> split_at=(str,str) parse=Result<t>
 to_string=String to_owned=String to_lowercase=String to_uppercase=String replace=String replacen=String repeat=String
 as_bytes=[u8] into_bytes=Vec<u8> as_str=str as_mut_str=str get=Option<str> pop=Option<char> remove=char into_boxed_str
 to_ascii_lowercase=String to_ascii_uppercase=String len=usize is_empty=bool contains=bool starts_with=bool
 ends_with=bool eq_ignore_ascii_case=bool is_char_boundary=bool push push_str insert insert_str truncate clear
 as_ref=self extend reserve capacity=usize drain=Iter<char> retain into_string=String chars_rev into=t is_ascii=bool
 escape_debug escape_default encode_utf16 as_ptr make_ascii_lowercase split_off=String into_owned=String
"""
_POINTER = "clone=self as_ref=0 as_mut=0 fmt eq=bool ne=bool cmp partial_cmp hash borrow=0 "
_CELL = "get=0 set replace=0 take=0 get_mut=0 into_inner=0 swap as_ptr=*0 update"
_NUMBER = """
 abs=self pow=self min=self max=self clamp=self wrapping_add=self wrapping_sub=self wrapping_mul=self wrapping_neg=self
 saturating_add=self saturating_sub=self saturating_mul=self saturating_pow=self rem_euclid=self div_euclid=self
 div_ceil=self rotate_left=self rotate_right=self swap_bytes=self reverse_bits=self to_be=self to_le=self
 next_power_of_two=self abs_diff=self signum=self wrapping_shl=self wrapping_shr=self isqrt=self
 checked_add=Option<self> checked_sub=Option<self> checked_mul=Option<self> checked_div=Option<self>
 checked_rem=Option<self> checked_pow=Option<self> checked_shl=Option<self> checked_shr=Option<self>
 checked_neg=Option<self> checked_next_power_of_two=Option<self> overflowing_add=(self,bool) overflowing_sub=(self,bool)
 count_ones=u32 count_zeros=u32 leading_zeros=u32 trailing_zeros=u32 trailing_ones=u32 leading_ones=u32 ilog2=u32
 is_power_of_two=bool to_ne_bytes=[u8] to_le_bytes=[u8] to_be_bytes=[u8] is_ascii=bool is_ascii_digit=bool
 is_ascii_alphabetic=bool is_ascii_alphanumeric=bool is_ascii_whitespace=bool is_ascii_uppercase=bool
 is_ascii_lowercase=bool to_ascii_lowercase=self to_ascii_uppercase=self eq_ignore_ascii_case=bool is_nan=bool
 floor=self ceil=self round=self trunc=self sqrt=self powi=self powf=self sin=self cos=self exp=self ln=self
"""
_NUMBERS = [f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64, 128, "size")]
_METHODS: dict[str, str] = {
    **dict.fromkeys([*_NUMBERS, "f32", "f64", "{integer}", "{float}"], _NUMBER),
    "Vec": _SEQUENCE,
    "[]": _SEQUENCE,
    "VecDeque": _SEQUENCE + " pop_front=Option<0> pop_back=Option<0> front=Option<0> back=Option<0> remove=Option<0>"
    " front_mut=Option<0> back_mut=Option<0> make_contiguous=[0] push_back push_front range=Iter<0>",
    "LinkedList": _SEQUENCE + " pop_front=Option<0> pop_back=Option<0> front=Option<0> back=Option<0> push_back",
    "Option": _OPTION,
    "Result": _RESULT,
    "Iter": _ITER,
    "HashMap": _MAP,
    "BTreeMap": _MAP,
    "IndexMap": _MAP,
    "HashSet": _SET,
    "BTreeSet": _SET,
    "IndexSet": _SET,
    "BinaryHeap": _SET,
    "str": _STR,
    "String": _STR,
    "Entry": "or_insert=1 or_insert_with=1 or_default=1 or_insert_with_key=1 and_modify=self key=0 or_insert_entry",
    "Cell": _CELL,
    "RefCell": "borrow=Ref<0> borrow_mut=RefMut<0> replace=0 into_inner=0 get_mut=0 take=0 swap as_ptr=*0"
    " try_borrow=Result<Ref<0>> try_borrow_mut=Result<RefMut<0>>",
    "UnsafeCell": "get=*0 get_mut=0 into_inner=0 raw_get=*0",
    "Mutex": "lock=Result<MutexGuard<0>> try_lock=Result<MutexGuard<0>> get_mut=Result<0> into_inner=Result<0>"
    " is_poisoned=bool clear_poison",
    "RwLock": "read=Result<RwLockReadGuard<0>> write=Result<RwLockWriteGuard<0>> get_mut=Result<0> into_inner=Result<0>"
    " try_read=Result<RwLockReadGuard<0>> try_write=Result<RwLockWriteGuard<0>>",
    "OnceLock": "get=Option<0> get_or_init=0 get_mut=Option<0> into_inner=Option<0> take=Option<0> set=Result<(),0>",
    "OnceCell": "get=Option<0> get_or_init=0 get_mut=Option<0> into_inner=Option<0> take=Option<0> set=Result<(),0>",
    "Weak": "upgrade=Option<Rc<0>> clone=self strong_count=usize ptr_eq=bool as_ptr=*0",
    "Pin": "as_mut=self as_ref=self get_mut=0 get_unchecked_mut=0 into_inner=0 get_ref=0 into_ref=self set",
    "MaybeUninit": "assume_init=0 assume_init_ref=0 assume_init_mut=0 assume_init_read=0 write=0 as_ptr=*0"
    " as_mut_ptr=*0",
    "NonNull": "as_ref=0 as_mut=0 as_ptr=*0 cast=NonNull<t>",
    "*": "as_ref=Option<0> as_mut=Option<0> add=self sub=self offset=self read=0 cast=*t is_null=bool write replace=0",
    "AtomicPtr": "load=*0 swap=*0 get_mut=*0 store",
    "Cow": _POINTER + "into_owned=0 to_mut=0 is_borrowed=bool",
    "Box": _POINTER,
    "Rc": _POINTER,
    "Arc": _POINTER,
    "char": "to_ascii_lowercase=char to_ascii_uppercase=char to_digit=Option<u32> len_utf8=usize"
    " to_lowercase=Iter<char>",
    "Range": "start=0 end=0 contains=bool",
    "ControlFlow": "break_value=Option<0> is_break=bool is_continue=bool continue_value=Option<1>",
    "Poll": "map=Poll<c0> is_ready=bool is_pending=bool map_ok map_err",
    "JoinHandle": "join=Result<0>",
}
ANY = dict.fromkeys(["clone", "to_owned", "borrow", "borrow_mut", "as_ref", "as_mut", "by_ref", "project"], "self")
"""Of traits that many types have; `project` of a pinned type has its fields."""
_TRAITS: dict[str, str] = {
    "AsRef": "as_ref=0", "AsMut": "as_mut=0", "Into": "into=0", "TryInto": "try_into=Result<0>", "Borrow": "borrow=0",
    "BorrowMut": "borrow_mut=0", "ToString": "to_string=String", "Display": "to_string=String",
    "Error": "to_string=String",
}  # fmt: skip
_PARAMS: dict[str, dict[str, str]] = {
    "Option": {"0": "map and_then filter inspect is_some_and map_or is_none_or take_if"},
    "Result": {
        "0": "map and_then is_ok_and map_or inspect",
        "1": "map_err or_else unwrap_or_else inspect_err is_err_and",
    },
    "Iter": {
        "0": "map filter filter_map flat_map for_each all any find find_map position rposition take_while skip_while"
        " map_while inspect partition max_by_key min_by_key try_for_each next_if rfind",
        "0 0": "max_by min_by reduce",
        "a0 0": "fold rfold try_fold scan",
    },
    "Vec": {
        "0": "retain retain_mut sort_by_key sort_unstable_by_key sort_by_cached_key binary_search_by partition_point"
        " dedup_by_key split map binary_search_by_key",
        "0 0": "sort_by sort_unstable_by dedup_by",
    },
    "HashMap": {"0 1": "retain", "0": "or_insert_with_key"},
    "HashSet": {"0": "retain"},
    "Entry": {"1": "and_modify", "0": "or_insert_with_key"},
    "Poll": {"0": "map"},
    "Cell": {"0": "update"},
}
"""Methods by what the parameters of their closures have."""
_SAME = {"[]": "Vec", "VecDeque": "Vec", "LinkedList": "Vec", "BTreeMap": "HashMap", "IndexMap": "HashMap",
         "BTreeSet": "HashSet", "IndexSet": "HashSet"}  # fmt: skip
_ITERATORS = frozenset([
    "Iterator", "IntoIter", "Chars", "Bytes", "CharIndices", "Drain", "Enumerate", "Peekable", "Rev", "Map", "Filter",
    "Skip", "Take", "Zip", "Chain", "Range", "RangeInclusive", "RangeFrom", "DoubleEndedIterator", "ExactSizeIterator",
    "Cloned", "Copied", "StepBy", "Fuse", "Iter", "IterMut", "Keys", "Values", "ValuesMut", "Lines", "Split"
])  # fmt: skip
_TOKEN = re.compile(r"[\w{}]+(?:\.\w+)*|[<>(),*\[\]]")


def _table(written: str) -> dict[str, str]:
    return {one.partition("=")[0]: one.partition("=")[2] for one in written.split()}


METHODS = {name: _table(written) for name, written in _METHODS.items()}
PARAMS = {
    name: {method: tuple(params.split()) for params, methods in table.items() for method in methods.split()}
    for name, table in _PARAMS.items()
}
TRAITS = {name: _table(written) for name, written in _TRAITS.items()}


def name_of(item: tuple[Any, ...]) -> str:
    """The name of a type by which its methods are listed."""
    return {"[]": "[]", "ptr": "*"}.get(item[0]) or str(item[1])


def params(name: str, method: str) -> tuple[str, ...]:
    """What the parameters of a closure have that a method is given."""
    return PARAMS.get(_SAME.get(name, name), {}).get(method, ())


def iterated(name: str) -> bool:
    """Whether a type of the standard library is an iterator, its first argument the item where one is given."""
    return name in _ITERATORS


def read(written: str, word: Callable[[str], Type]) -> Type:
    """The type that is written, with `word` for names that are none of the standard library's."""
    tokens = _TOKEN.findall(written)
    position = 0

    def several(end: str) -> tuple[Type, ...]:
        nonlocal position
        found: list[Type] = []
        while position < len(tokens) and tokens[position] != end:
            if tokens[position] == ",":
                position += 1
            else:
                found.append(one())
        position += 1
        return tuple(found)

    def one() -> Type:
        nonlocal position
        name = tokens[position]
        position += 1
        if name == "(":
            return ("tuple", several(")"))
        if name == "[":
            return ("[]", *several("]"))
        if name == "*":
            return ("ptr", one())
        if position < len(tokens) and tokens[position] == "<":
            position += 1
            return ("X", name, several(">"))
        if name in PRIMITIVES:
            return ("b", name)
        return ("X", name, ()) if name[0].isupper() else word(name)

    return one() if tokens else None
