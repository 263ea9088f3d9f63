// Package testcluster holds the build modules of the local cluster: a .mod and a
// .sum file for each component, which name every version that is built.
package testcluster

import "embed"

// Modules are the build modules.
//
//go:embed modules/*.mod modules/*.sum
var Modules embed.FS
