package measure

import (
	"fmt"
	"os"
	"time"
)

// flushes is the number of flushes whose median is taken.
const flushes = 100

// flush returns the median time in which one page of a file in dir reaches the disk. Most of
// an ADD or DEL is flushes where flushes are slow.
func flush(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "flush-")
	if err != nil {
		return 0, fmt.Errorf("measure a flush: %w", err)
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	var all Sample
	for i := range flushes {
		begin := time.Now()
		if _, err := f.WriteAt([]byte{byte(i)}, int64(i%2)*4096); err != nil {
			return 0, fmt.Errorf("measure a flush: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure a flush: %w", err)
		}
		all = append(all, time.Since(begin))
	}
	return all.Median(), nil
}
