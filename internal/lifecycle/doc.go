// Package lifecycle ends attachments and reservations in the state of a node. The CNI plugin and the agent share
// the functions, which all follow one pattern inside the caller's transaction: gather the facts, let
// pkg/reservation plan, apply the decision.
package lifecycle
