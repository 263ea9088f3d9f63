package flock

import (
	"testing"
	"time"
)

// SetImpatience changes for one test how often a waiter tries to take the lock out of turn.
func SetImpatience(t *testing.T, d time.Duration) {
	before := impatience
	impatience = d
	t.Cleanup(func() { impatience = before })
}
