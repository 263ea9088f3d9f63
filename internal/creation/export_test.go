package creation

// MayHaveSubset reports whether a spread may cover the pod.
var MayHaveSubset = mayHaveSubset

// WithoutKept leaves out what the Keeper adds.
var WithoutKept = withoutKept
