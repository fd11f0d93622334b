// What rules and their sums use beyond + - * / sqrt abs select, from these alone, for any lane. No
// include guard: compiled in the namespace of its target.

// From a to b by w, in the form that torch has: w = 1 gives exactly b, w = 0 exactly a. The branch
// is the same for all elements.
template <class V, class S>
TALUS_FN V lerp(V a, V b, const LerpWeight<S>& w) {
  if (w.from_b != 0) return b - (b - a) * V(w.rest);
  return a + V(w.weight) * (b - a);
}

// The larger one; NaN if either is.
template <class V>
TALUS_FN V maximum(V a, V b) {
  const V larger = select(a >= b, a, b);
  return select(a != a, a, larger);
}

// The smaller one; NaN if either is.
template <class V>
TALUS_FN V minimum(V a, V b) {
  const V smaller = select(b >= a, a, b);
  return select(a != a, a, smaller);
}

// 1 or -1; zeros and NaN are themselves.
template <class V>
TALUS_FN V sgn(V x) {
  const V zero(0);
  return select(x > zero, V(1), select(zero > x, V(-1), x));
}

// `same` where a and b are both above or both below zero, `opposite` where one is above and one is
// below, else `other`, as where one is NaN. Signs are compared: a product may underflow.
template <class V>
TALUS_FN V by_signs(V a, V b, V same, V opposite, V other) {
  const V zero(0);
  const V above = select(b > zero, same, select(zero > b, opposite, other));
  const V below = select(zero > b, same, select(b > zero, opposite, other));
  return select(a > zero, above, select(zero > a, below, other));
}

// 1 where a and b are both above or both below zero, or one is NaN: no mask hides it. Else 0.
template <class V>
TALUS_FN V agreement(V a, V b) {
  const V one(1), none(0);
  const V shared = by_signs(a, b, one, none, none);
  return select(a != a, one, select(b != b, one, shared));
}

// The direction behind momentum: the buffer b takes d in, the first time as it is, with no dampening.
template <class V, class Scalars>
TALUS_FN V through_momentum(const Scalars& s, V d, V& b) {
  if (s.first != 0)
    b = d;
  else
    b = V(s.momentum) * b + V(s.weight) * d;
  if (s.nesterov != 0) return d + V(s.momentum) * b;
  return b;
}

// One term into a sum, and two partials of it.
template <Sum kSum, class V>
TALUS_FN V add_term(V lane, V x) {
  if constexpr (kSum == Sum::plain || kSum == Sum::own) return lane + x;
  if constexpr (kSum == Sum::squares) return lane + x * x;
  if constexpr (kSum == Sum::magnitudes) return lane + abs(x);
  if constexpr (kSum == Sum::largest) return maximum(lane, abs(x));
}

template <Sum kSum, class V>
TALUS_FN V join(V a, V b) {
  if constexpr (kSum == Sum::largest) return maximum(a, b);
  return a + b;
}
