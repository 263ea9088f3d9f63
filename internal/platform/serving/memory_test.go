package serving_test

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// memoryAtMost is how many bytes the process had at most while a function ran, beside those
// that it had before.
func memoryAtMost(f func()) uint64 {
	taken := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64() - s[1].Value.Uint64()
	}
	debug.FreeOSMemory()
	before := taken()
	most, stop, stopped := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, taken())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return most - before
}
