// Package nodenetwork tells in the status of the NodeNetwork which nodes have its settings. The agents read and apply
// the settings; this package changes nothing on nodes.
package nodenetwork
