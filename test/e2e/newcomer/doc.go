// Package newcomer does what the pages tell a newcomer, on a cluster that has a network.
package newcomer
