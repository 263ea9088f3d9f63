// Package ledger says what a book of disruptions may hold and how it changes.
//
// A book has an entry for each pod that may go and is not yet seen to be gone. Budgets that
// share a pod share a book: one compare-and-set of the book decides for all of them. Two
// books are joined in three steps, each of which is one compare-and-set and may be done by
// anybody, any number of times:
//
//	Freeze  the book with the greater name points to the other one, and changes no more
//	Absorb  the other book takes over the entries
//	Close   the first book gives up its entries; its pointer stays
//
// All functions are pure. Time is an argument.
package ledger
