// Package books keeps books of disruptions in API objects.
//
// A change of a book is one compare-and-set. After a conflict the change is decided anew
// from the book as it is now. Budgets that share a pod share a book; package ledger has the
// steps that join two books.
package books
