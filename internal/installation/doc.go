// Package installation ties the cluster-scoped objects of an installation to its Namespace. The
// garbage collector then removes them after the Namespace was deleted.
package installation
