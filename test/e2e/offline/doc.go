// Package offline restarts nodes while no API server can be reached.
//
//	Cache    what an edge node has of the API server
//	podsOf   thirty pods of every kind
package offline
