package controller

// PodWaits is what the nominator looks at.
var PodWaits = podWaits
