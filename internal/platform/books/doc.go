// Package books keeps books of disruptions in API objects: one for the budgets of each namespace,
// and one for each WorkloadSpread.
//
// A change of a book is one compare-and-set. After a conflict the change is decided again
// from the book as it is now.
//
// Within one replica, the changes of one book that come together are written together: each
// is decided from the result of the one before, and all wait for one write. So a replica has
// no conflict with itself, and many requests cost little more than one. The books of different
// namespaces never wait for each other.
//
// A note says something that no decision relies on, such as a refused request. It is written with
// the next decision, or a moment later, and nothing waits for it.
//
// A spread owns its book. The book of a namespace has no owner. When a user deletes it, it is made
// again without the entries: for up to 40 s more pods may go than the budgets allow. No role of
// Limpet lets users do so.
package books
