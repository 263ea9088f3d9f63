// Package claim decides which addresses the status of an IPAMClaim shows.
// An IPAMClaim (k8s.cni.cncf.io/v1alpha1, of the Network Plumbing Working Group) gives the addresses of an interface a life of
// their own: those of a virtual machine outlive its pods. Here it is an owner name like any other.
package claim
