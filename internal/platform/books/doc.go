// Package books keeps books of disruptions in API objects.
//
// A change of a book is one compare-and-set. After a conflict the change is decided again
// from the book as it is now. Budgets that share a pod share a book; package ledger has the
// steps that join two books.
//
// Within one replica, the changes of one book that come together are written together: each
// is decided from the result of the one before, and all wait for one write. So a replica has
// no conflict with itself, and many requests cost little more than one. Different books never
// wait for each other.
//
// A note says something that no decision relies on, such as a refused request. It is written with
// the next decision, or a moment later, and nothing waits for it.
//
// A book has an owner reference to each budget that used it, and is removed with the last of
// them. When a user deletes a book, it is made again without the entries: for up to 40 s more
// pods may go than the budgets allow. No role of Limpet lets users do so.
package books
