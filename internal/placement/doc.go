// Package placement counts the active pods of each owner and subset, as the watch of pods tells.
package placement
