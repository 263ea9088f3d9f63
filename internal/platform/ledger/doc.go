// Package ledger says what a book of disruptions may hold and how it changes.
//
// A book has an entry for each pod that may go and is not yet seen to be gone. Budgets that
// share a pod share a book: one compare-and-set of the book decides for all of them. Two
// books are joined in three steps, each of which is one compare-and-set. Any replica may do
// a step, any number of times:
//
//	Freeze  the book with the greater name points to the other one, and changes no more
//	Absorb  the other book takes over the entries
//	Close   the first book gives up its entries; its pointer stays
//
// Next says which step is the next. These invariants hold between any two steps:
//
//   - A pointer leads to a smaller name. So the pointers have no cycle, and each book has one root.
//   - Only a root changes its entries. A frozen book is what its root takes over, whole.
//   - An entry is in the root, or in a frozen book that the root has not absorbed. A root names
//     each book that it absorbed, also through another book, so that it absorbs none twice. Of
//     more than MostAbsorbed names the oldest are dropped. A book whose join has not ended by
//     then is absorbed a second time, which can only return entries that have not expired.
//   - An entry stays until its pod is seen to go, until it expires, or until the request that
//     alone relies on it has failed.
//   - A replica decides only if it knows the pods as well as the replica that removed entries:
//     Book.Knows. Else the pod of a removed entry could count as available.
//
// The book of a WorkloadSpread has entries of pods that are being created (Place, Settle). It is
// never joined.
//
// The expiry of an entry assumes that clocks, and caches that are complete, differ by less than
// Bound minus the 34 seconds of the API server.
//
// TestModel tries all orders of all moves of two replicas, with caches that are behind, for
// small numbers of budgets and pods. TestModelFindsMistakes shows which mistakes it finds.
//
// All functions are pure: they change nothing that they are given, and time is an argument.
package ledger
