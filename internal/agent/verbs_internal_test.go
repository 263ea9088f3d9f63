package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// verbFile is a log of the plugin with its reader.
type verbFile struct {
	verbLog
	t *testing.T
}

func newVerbFile(t *testing.T) *verbFile {
	return &verbFile{verbLog{path: filepath.Join(t.TempDir(), "ipam.log")}, t}
}

func (f *verbFile) append(text string) {
	f.t.Helper()
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	f.must(err)
}

func (f *verbFile) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// reads checks which lines are new. A line that is too long is "".
func (f *verbFile) reads(want ...string) {
	f.t.Helper()
	var got []string
	f.must(f.read(func(line []byte) { got = append(got, string(line)) }))
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestTheLogOfThePluginIsFollowed(t *testing.T) {
	f := newVerbFile(t)
	f.append("before the agent\n")
	f.reads()
	f.append("one\ntwo\nthr")
	f.reads("one", "two")
	f.append("ee\n")
	f.reads("three")
	f.append("four\n")
	f.must(os.Rename(f.path, f.path+".1"))
	f.append("five\n")
	f.reads("four", "five")
	f.append("torn")
	f.reads()
	f.must(os.Truncate(f.path, 0))
	f.append("six\n")
	f.reads("six")
	f.must(os.Remove(f.path))
	f.reads()
	f.append("seven\n")
	f.reads("seven")
}

func TestALogThatBeginsLaterIsReadFromItsStart(t *testing.T) {
	f := newVerbFile(t)
	f.reads()
	f.append("one\n")
	f.reads("one")
}

// A log that cannot be opened at first may hold lines from before the agent.
func TestALogThatOpensLaterIsReadFromItsEnd(t *testing.T) {
	f := newVerbFile(t)
	dir := filepath.Join(filepath.Dir(f.path), "log")
	f.path = dir
	f.append("a file where the directory should be\n")
	f.path = filepath.Join(dir, "ipam.log")
	if err := f.read(func(line []byte) { t.Errorf("read %q", line) }); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("read from no directory: %v", err)
	}
	f.must(errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700)))
	f.append("before the agent\n")
	f.reads()
	f.append("one\n")
	f.reads("one")
}

// A verb that has opened the log may write its line after the agent has read to the end.
func TestALineBeforeTheRenamingIsRead(t *testing.T) {
	f := newVerbFile(t)
	f.reads()
	f.append("one\n")
	var got []string
	f.must(f.read(func(line []byte) {
		got = append(got, string(line))
		if len(got) == 1 { // the end was read together with this line
			f.append("two\n")
			f.must(os.Rename(f.path, f.path+".1"))
			f.append("three\n")
		}
	}))
	if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A line of any length costs as much memory as the longest that is read.
func TestLongLinesOfTheLogAreNotKept(t *testing.T) {
	f := newVerbFile(t)
	f.reads()
	f.append(strings.Repeat("x", maxVerbLine) + "\n" + strings.Repeat("y", maxVerbLine+1) + "\nshort\n")
	f.reads(strings.Repeat("x", maxVerbLine), "", "short")
	f.append(strings.Repeat("z", maxVerbRead-1000))
	f.reads()
	if info, err := f.file.Stat(); err != nil || !f.skip || f.offset != info.Size() {
		t.Errorf("a line that is too long is read again: at %d, skipped %t, %v", f.offset, f.skip, err)
	}
	f.append("\nshort\n")
	f.reads("", "short")
}

// A round reads at most so much. The rest follows in later rounds, also after a rotation.
func TestARoundReadsABoundedPartOfTheLog(t *testing.T) {
	f := newVerbFile(t)
	f.reads()
	f.append("first\n")
	f.reads("first")
	const lines = 3*maxVerbRead/100 + 10
	f.append(strings.Repeat(strings.Repeat("x", 99)+"\n", lines))
	f.must(os.Rename(f.path, f.path+".1"))
	f.append("last\n")
	count, rounds := 0, 0
	for ; rounds < 10; rounds++ {
		in, last := 0, false
		f.must(f.read(func(line []byte) { in, last = in+1, string(line) == "last" }))
		if in > maxVerbRead/100+1 {
			t.Errorf("%d lines in one round", in)
		}
		if count += in; last {
			break
		}
	}
	if count != lines+1 || rounds < 3 {
		t.Errorf("%d lines in %d rounds, want %d in 4", count, rounds+1, lines+1)
	}
}

// A log that is a link, a pipe or a directory is not read, and the agent does not wait for it.
func TestOnlyARegularFileIsReadAsLog(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newVerbFile(t)
			f.must(create(f.path))
			if err := f.read(func(line []byte) { t.Errorf("read %q", line) }); err == nil {
				t.Error("there is no error")
			}
			f.must(os.Remove(f.path))
			f.append("one\n")
			f.reads("one")
		})
	}
}
