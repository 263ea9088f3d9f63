// Package leader elects one replica of the controller by a Lease, as Kubernetes' own programs do.
// It differs from the library's election in one point: a leader that cannot reach the API server
// does not end. Its writes wait until the Lease is its own again. Only a replica that finds
// another leader ends, so that it begins again without what it remembers.
//
//	Elector     holds the Lease, or waits for it
//	HTTPClient  makes writes wait while this replica does not lead
//	Manager     starts what needs a leader after the first election
package leader
