package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// The marker shows that this node has had a state, and repeats the generation of each commit. So a journal of a lower
// generation is an earlier file that was put in the place of the newest, or has lost a commit.
//
// The marker is not synced, and not every commit is: after a loss of power the journal may lack commits that the marker
// knows, except those that were synced. The marker names the last of them, and the uptime of the node.

// markerText is the first line of the marker. The generation follows in a line of its own, and the rest in a third one.
const markerText = "Limpet keeps the state of this node beside this file. If the database is missing, the state is lost, and the node is not new.\n"

// Each number has generationDigits, and each line a checksum.
const (
	generationWord   = "generation "
	syncedWord       = "synced "
	generationDigits = 20
	generationSize   = len(generationWord) + generationDigits + len(" 01234567\n")
	syncedSize       = len(syncedWord) + 2*generationDigits + len("  01234567\n")
)

// mark is what the marker says.
type mark struct {
	generation uint64 // of the last commit; 0 for an unreadable marker
	synced     uint64 // of the last commit that was synced
	uptime     time.Duration
}

// check fails for a state of a generation that is earlier than the mark.
func (m mark) check(last uint64, uptime time.Duration) error {
	least := m.synced
	if uptime >= m.uptime {
		least = m.generation // no restart since the mark
	}
	if last < least {
		return fmt.Errorf("generation %d, and the marker says %d: %w", last, least, ErrOutdated)
	}
	return nil
}

// next returns the mark after a commit.
func (m mark) next(generation uint64, synced bool, uptime time.Duration) mark {
	m.generation, m.uptime = generation, uptime
	if synced {
		m.synced = generation
	}
	return m
}

// lines returns the second and the third line of the marker, always of the same length.
func (m mark) lines() []byte {
	line := sealLine(fmt.Appendf(make([]byte, 0, generationSize+syncedSize), "%s%0*d", generationWord, generationDigits, m.generation), 0)
	return sealLine(fmt.Appendf(line, "%s%0*d %0*d", syncedWord, generationDigits, m.synced, generationDigits, m.uptime), generationSize)
}

// sealLine adds a checksum to the line that begins at a position.
func sealLine(data []byte, at int) []byte {
	return fmt.Appendf(data, " %08x\n", crc32.ChecksumIEEE(data[at:]))
}

// readMark reads the marker. The mark is empty when there is no marker, or one that says nothing.
func (s *Store) readMark() (m mark, err error) {
	f, err := flock.Open(s.path(markerName), os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read marker: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	lines := make([]byte, generationSize+syncedSize)
	n, err := f.ReadAt(lines, int64(len(markerText)))
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ESPIPE) {
		return m, fmt.Errorf("read marker: %w", err)
	}
	return readLines(lines[:n]), nil
}

// readLines reads what lines returns. Without a sound third line each commit counts as synced.
func readLines(data []byte) (m mark) {
	number := func(at int) uint64 {
		n, _ := strconv.ParseUint(string(data[at:at+generationDigits]), 10, 64) // the comparison below finds an error
		return n
	}
	if len(data) < generationSize+syncedSize {
		return m
	}
	m.generation = number(len(generationWord))
	m.synced = m.generation
	if !bytes.Equal(m.lines()[:generationSize], data[:generationSize]) {
		return mark{}
	}
	at := generationSize + len(syncedWord)
	full := mark{m.generation, number(at), time.Duration(number(at + generationDigits + 1))}
	if bytes.Equal(full.lines(), data) {
		return full
	}
	return m
}

// writeMark writes the mark of a commit. Errors are ignored: the commit is done, and a marker that is behind detects less.
func (s *Store) writeMark(m mark) { s.writeMarkerAt(m.lines(), 0) }

// writeSynced notes that a commit is on the disk. It needs no lock, and leaves the line of the last commit alone: that may
// be a later one.
func (s *Store) writeSynced(generation uint64) {
	m := mark{synced: generation, uptime: s.uptime()}
	s.writeMarkerAt(m.lines()[generationSize:], generationSize)
}

func (s *Store) writeMarkerAt(lines []byte, at int) {
	f, err := flock.Open(s.path(markerName), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(lines, int64(len(markerText)+at))
	_ = f.Close()
}

// uptime returns the time since the start of the node.
func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // fails for an unknown clock only
	return time.Duration(ts.Nano())
}
