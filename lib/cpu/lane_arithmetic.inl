// What rules use beyond + - * / sqrt select, from these alone, for any lane. No include guard:
// compiled in the namespace of its target.

// a + w * (b - a) for w below one half, else from the other end, so that w = 1 gives exactly b.
// w1 = 1 - w in double. The branch is the same for all elements.
template <class V, class S>
TALUS_FN V lerp(V a, V b, S w, S w1) {
  if (w < S(0.5)) return a + V(w) * (b - a);
  return b - (b - a) * V(w1);
}

// The larger one; NaN if either is.
template <class V>
TALUS_FN V maximum(V a, V b) {
  const V larger = select(a >= b, a, b);
  return select(a != a, a, larger);
}
