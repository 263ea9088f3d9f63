// Package mark keeps a label on the namespaces in which a feature has objects. The API server
// sends requests about pods of labelled namespaces alone to the webhooks of the feature.
//
//	Mark    the label of a feature
//	Plan    when the label is set, and when it is lowered or removed; pure
//	Keeper  does what the plan says, on the leader
//
// The webhook that validates an object of the feature sets the label before the API server
// stores the first object of a namespace; see package validate.
package mark
