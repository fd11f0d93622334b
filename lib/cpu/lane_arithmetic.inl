// What rules use beyond + - * / sqrt select, from these alone, for any lane. No include guard:
// compiled in the namespace of its target.

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
