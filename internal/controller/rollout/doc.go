// Package rollout opens the gates of StatefulSets that grow step by step, and writes their partitions.
package rollout
