package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// The generation of a state is a number that each commit raises. The marker repeats the generation after the commit. So
// a database whose generation is lower than that of the marker is an earlier one that was put in its place.
//
// The write of the marker is not synced: a second sync would cost as much as the commit. After a power loss the
// marker may be behind, never ahead. The first generation of a database is the time of its file in nanoseconds: a
// database of another history, made before, has a lower generation.

var keyGeneration = []byte("generation")

// markerText is the first line of the marker. The generation follows in a line of its own.
const markerText = "Limpet keeps the state of this node beside this file. If the database is missing, the state is lost, and the node is not new.\n"

// generationWord begins the second line of the marker, which has a number of generationDigits and a checksum.
const (
	generationWord   = "generation "
	generationDigits = 20
	generationSize   = len(generationWord) + generationDigits + len(" 01234567\n")
)

// generationLine returns the second line of the marker, always of the same length.
func generationLine(n uint64) []byte {
	line := fmt.Appendf(make([]byte, 0, generationSize), "%s%0*d", generationWord, generationDigits, n)
	return fmt.Appendf(line, " %08x\n", crc32.ChecksumIEEE(line))
}

// markedGeneration returns the generation in the marker; 0 when there is no marker, or one that says nothing.
func (s *Store) markedGeneration() (uint64, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, markerName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read marker: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	line := make([]byte, generationSize)
	if n, err := f.ReadAt(line, int64(len(markerText))); errors.Is(err, unix.ESPIPE) {
		return 0, nil
	} else if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read marker: %w", err)
	} else if n < generationSize || string(line[:len(generationWord)]) != generationWord {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(line[len(generationWord):][:generationDigits]), 10, 64)
	if err != nil || !bytes.Equal(generationLine(n), line) {
		return 0, nil
	}
	return n, nil
}

// markGeneration writes the generation of a commit into the marker. Errors are ignored: the commit is done, and a marker
// that is behind detects less.
func (s *Store) markGeneration(n uint64) {
	f, err := os.OpenFile(filepath.Join(s.dir, markerName), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(generationLine(n), int64(len(markerText)))
	_ = f.Close()
}

// generation returns the generation of a database; 0 when a version without generations wrote it.
func generation(tx *bolt.Tx) uint64 {
	return number(tx.Bucket(bucketMeta).Get(keyGeneration))
}

// checkGeneration fails for a database that is older than the marker says.
func checkGeneration(tx *bolt.Tx, marked uint64) error {
	if n := generation(tx); n < marked {
		return fmt.Errorf("generation %d, and the marker says %d: %w", n, marked, ErrOutdated)
	}
	return nil
}

// raiseGeneration raises the generation to at least the given number, and returns it.
func raiseGeneration(tx *bolt.Tx, least uint64) (uint64, error) {
	n := generation(tx) + 1
	if n == 1 {
		info, err := os.Stat(tx.DB().Path())
		if err != nil {
			return 0, fmt.Errorf("begin generations: %w", err)
		}
		n = uint64(max(info.ModTime().UnixNano(), 1))
	}
	n = max(n, least)
	if err := tx.Bucket(bucketMeta).Put(keyGeneration, binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return 0, fmt.Errorf("raise generation: %w", err)
	}
	return n, nil
}
