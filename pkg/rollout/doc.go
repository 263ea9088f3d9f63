// Package rollout decides how many pods of a StatefulSet may start at a time, and how many are updated.
package rollout
