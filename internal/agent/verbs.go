package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// Bounds of what one round reads of the plugin's log. A line of a verb has some hundred
// bytes; a line that is longer than maxVerbLine is not decoded.
const (
	maxVerbRead = 1 << 20
	maxVerbLine = 64 << 10
)

// errVerbLog is returned for a log that is no regular file.
var errVerbLog = errors.New("is no regular file")

// verbLog follows the plugin's log, so that a verb of the plugin does nothing for metrics.
// It starts at the end of the file, reads an unfinished line again, and follows a rotation after it has read the renamed
// file.
type verbLog struct {
	path   string
	file   *os.File
	offset int64
	begun  bool // a later file is read from its start
	skip   bool // until the end of a line that is too long
}

// read gives each complete line that is new to take, and at most maxVerbRead bytes in all. A
// line that is too long is given as nil.
func (l *verbLog) read(take func(line []byte)) error {
	left := maxVerbRead
	for range 2 { // a renamed file, then the one that follows it
		err := l.open()
		if l.file == nil || err != nil {
			return err
		}
		n, err := l.readFile(left, take)
		if err != nil {
			return err
		}
		if left -= n; left <= 0 || !l.replaced() {
			return nil
		}
		n, err = l.readFile(left, take) // what was written between the end and the renaming
		if left -= n; left <= 0 || err != nil {
			return err
		}
		l.close()
	}
	return nil
}

// open opens the log, unless it is open. A log that does not exist is no error.
func (l *verbLog) open() error {
	if l.file != nil {
		return nil
	}
	atEnd := !l.begun
	f, err := os.OpenFile(l.path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	l.begun = l.begun || err == nil || errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ELOOP) // a link is no log either
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open log of the plugin: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("log of the plugin %s: %w", l.path, errVerbLog)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.offset = f, 0
	if atEnd {
		l.offset = info.Size()
	}
	return nil
}

func (l *verbLog) close() {
	_ = l.file.Close() // it was only read
	l.file, l.skip = nil, false
}

// replaced reports whether the path names another file by now, or none.
func (l *verbLog) replaced() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return true
	}
	now, err := os.Lstat(l.path)
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(mine, now)
}

// readFile gives the complete lines that follow in the open file to take, and returns how many bytes it read.
func (l *verbLog) readFile(atMost int, take func(line []byte)) (n int, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at log of the plugin: %w", err)
	}
	if info.Size() < l.offset { // it was emptied
		l.offset, l.skip = 0, false
	}
	data := make([]byte, min(int64(atMost), info.Size()-l.offset))
	if n, err = l.file.ReadAt(data, l.offset); err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read log of the plugin: %w", err)
	}
	for data = data[:n]; ; {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		tooLong := l.skip || len(line) > maxVerbLine
		if !ended && !tooLong {
			return n, nil
		}
		l.offset += int64(len(data) - len(rest))
		if l.skip = tooLong && !ended; !ended {
			return n, nil
		}
		if tooLong {
			line = nil
		}
		take(line)
		data = rest
	}
}

// countVerbs adds the new lines of the plugin's log to the metrics.
func (a *Agent) countVerbs() error {
	return a.verbs.read(func(line []byte) {
		v, counted, ok := plan.ReadVerb(line)
		switch {
		case !ok:
			a.metrics.verbsUnread.Inc()
		case counted:
			a.metrics.verb(v)
		}
	})
}
