package admit

// MayHaveSubset tells whether a spread may cover the pod.
var MayHaveSubset = mayHaveSubset
