// Package placement counts the active pods of each owner and subset, as the watch of pods tells.
//
// The counts are kept, not computed for each creation: 5 000 pods cost no more than five. They
// change by the difference between two states of a pod, so that the tally holds counts and not
// pods. A tally also remembers for a while which creations it has seen as pods.
package placement
