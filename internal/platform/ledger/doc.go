// Package ledger says what a book of disruptions may hold and how it changes.
//
// A book has an entry for each pod that may go and is not yet seen to be gone. The budgets of a
// namespace share one book: one compare-and-set of it decides for all budgets of a pod. These
// invariants hold between any two of them:
//
//   - An entry stays until its pod is seen to go, until it expires, or until the request that
//     alone relies on it has failed. A full book of budgets takes none, and drops none.
//   - A replica decides only if it knows the pods as well as the replica that removed entries:
//     Book.Knows. Else the pod of a removed entry could count as available.
//
// The book of a WorkloadSpread has entries of pods that are being created (Place, Settle).
//
// The expiry of an entry assumes that clocks, and caches that are complete, differ by less than
// Bound minus the 34 seconds of the API server.
//
// TestModel tries all orders of all moves of two replicas, with caches that are behind, for
// small numbers of budgets and pods. TestModelFindsMistakes shows which mistakes it finds.
//
// All functions are pure: they change nothing that they are given, and time is an argument.
package ledger
