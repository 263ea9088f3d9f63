package creation

// MayHaveSubset reports whether a spread may cover the pod.
var MayHaveSubset = mayHaveSubset
