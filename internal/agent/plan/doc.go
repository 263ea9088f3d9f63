// Package plan holds the decisions of the node agent as pure functions: facts in, data
// out. It reads no clock, file, kernel table or API; package agent gathers the facts and
// applies what the functions here return.
//
// Each file holds one question:
//
//   - attachments: which attachments to correct, and which to end
//   - markers: which files of waiting ADDs to remove
//   - mirror, pool: what the API should show of the node's state
//   - changes, turns: which API objects to create, update and delete so that the API shows this, in which order
//   - retry: what an answer of the API server means, and how long to wait after it
//   - ipam: which IPAM plugin gives pods their addresses on this node
//   - adopt, patch: how limpet-ipam takes the place of host-local in the network of others, and back
//   - network: what to set up where Limpet is the pod network: conflist and routes
package plan
