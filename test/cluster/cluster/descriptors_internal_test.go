package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestProgramsInheritNoDescriptors starts a program while a descriptor without close-on-exec is open,
// as a script that holds a lock leaves it. A listener that is handed over on purpose still arrives.
func TestProgramsInheritNoDescriptors(t *testing.T) {
	dir := t.TempDir()
	held, given := filepath.Join(dir, "held"), filepath.Join(dir, "given")
	fd, err := unix.Open(held, unix.O_CREAT|unix.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	file, err := os.Create(given)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	cmd := exec.Command("sh", "-c", "ls -l /proc/self/fd; echo end; exec sleep 60")
	cmd.ExtraFiles = []*os.File{file}
	p := processes{dir: dir, log: dir}
	if err := p.spawn("program", "", cmd); err != nil {
		t.Fatal(err)
	}
	defer p.end("program", unix.SIGKILL, time.Second) //nolint:errcheck // the test has its answer
	open := logOf(t, filepath.Join(dir, "program.log"))
	if strings.Contains(open, held) || !strings.Contains(open, given) {
		t.Errorf("the program has these descriptors, want %s and not %s:\n%s", given, held, open)
	}
}

// logOf waits until a program has written all that it will write.
func logOf(t *testing.T, path string) (text string) {
	t.Helper()
	check := func() error {
		data, err := os.ReadFile(path)
		if text = string(data); err == nil && !strings.HasSuffix(text, "end\n") {
			err = fmt.Errorf("so far %q", text)
		}
		return err
	}
	deadline, tick := time.After(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return text
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}
