package cni

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// The outcomes of verbs in the log file, apart from those of errors.
const (
	outcomeNew        = "new"        // ADD: the next free addresses
	outcomeReclaimed  = "reclaimed"  // ADD: a reservation gave way, a note names its owner
	outcomeClaimed    = "claimed"    // ADD: the addresses that the pod had before
	outcomeReserved   = "reserved"   // DEL
	outcomeFreed      = "freed"      // DEL
	outcomeUnknown    = "unknown"    // DEL and CHECK: no such attachment
	outcomeUnrepaired = "unrepaired" // DEL: the state is broken or cannot be written, the pod ended without it
	outcomeEnded      = "ended"      // GC
	outcomeOK         = "ok"         // CHECK and STATUS: nothing is wrong
	outcomeRefused    = "refused"    // by a rule: code 11, or a code of limpet-ipam
	outcomeFailed     = "failed"     // by the configuration or the machine
)

// Bounds of one entry: readable, and far below what one write can take.
const (
	maxReason = 2048
	maxNotes  = 32
)

// logEntry is the line that one verb writes to the log file.
type logEntry struct {
	Time      time.Time         `json:"time"`
	Verb      string            `json:"verb"`
	Outcome   string            `json:"outcome"`
	Network   string            `json:"network,omitempty"`
	Pod       string            `json:"pod,omitempty"`
	Container string            `json:"container,omitempty"`
	IfName    string            `json:"ifname,omitempty"`
	Addresses []netip.Addr      `json:"addresses,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Notes     []json.RawMessage `json:"notes,omitempty"` // warnings, as records of their own
	Code      uint              `json:"code"`
	Millis    float64           `json:"ms"`
}

// setOutcome notes how the verb went, unless it fails later.
func (l *logEntry) setOutcome(outcome, reason string, addrs []netip.Addr) {
	l.Outcome, l.Reason, l.Addresses = outcome, reason, addrs
}

// Funcs returns the verbs for the skeleton of a CNI plugin.
func (p *Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{
		Add:    p.logged("ADD", (*Plugin).Add),
		Del:    p.logged("DEL", (*Plugin).Del),
		Check:  p.logged("CHECK", (*Plugin).Check),
		GC:     p.logged("GC", (*Plugin).GC),
		Status: p.logged("STATUS", (*Plugin).Status),
	}
}

// logged runs a verb for skel. It works on a copy of the plugin with a log entry of its own,
// into which the verb's warnings go too.
func (p *Plugin) logged(name string, verb func(*Plugin, *skel.CmdArgs) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		conf := args.Conf.Log()
		file := logFile{path: cmp.Or(conf.Path, p.LogFile, netconf.NoLog), max: conf.MaxBytes}
		start, own := p.Now(), *p
		own.pod, own.podErr = netconf.ParsePod(args.Args)
		own.entry = newLogEntry(name, conf.Network, own.pod, args, start)
		var notes bytes.Buffer
		own.Log = slog.New(slog.NewMultiHandler(p.Log.Handler(), slog.NewJSONHandler(&notes, noteOptions)))
		err := verb(&own, args)
		if err != nil {
			err = coded(err)
		}
		if file.path == netconf.NoLog || name == "STATUS" && err == nil { // runtimes ask for STATUS every few seconds
			return err
		}
		own.entry.end(err, notes.Bytes(), p.Now().Since(start))
		_ = file.append(own.entry.encode()) // by design: a log is not worth a pod
		return err
	}
}

// LogByHand adds an entry about something that a person did to the default log file. It
// does nothing where no verb has made that file: the log is switched off or elsewhere.
func (p *Plugin) LogByHand(verb string, owner reservation.Owner, containerID string, addrs []netip.Addr, reason string) {
	if _, err := os.Stat(p.LogFile); err != nil {
		return
	}
	pod := netconf.Pod{Namespace: owner.Namespace, Name: owner.Pod}
	l := newLogEntry(verb, owner.Network, pod, &skel.CmdArgs{ContainerID: containerID, IfName: owner.IfName}, p.Now())
	l.setOutcome(outcomeFreed, reason, addrs)
	_ = logFile{path: p.LogFile, max: netconf.DefaultLogMaxBytes}.append(l.encode()) // by design, as with verbs
}

func newLogEntry(verb, network string, pod netconf.Pod, args *skel.CmdArgs, start reservation.Moment) logEntry {
	l := logEntry{
		Time: start.Wall.UTC().Truncate(time.Millisecond), Verb: verb, Network: network,
		Container: args.ContainerID[:min(12, len(args.ContainerID))], IfName: args.IfName,
	}
	if pod.Name != "" {
		l.Pod = pod.Namespace + "/" + pod.Name
	}
	return l
}

// noteOptions leave time and level out of a warning: the entry has them.
var noteOptions = &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}}

// end completes the entry. An error takes the place of what was noted: the verb has done nothing, but a DEL may have ended its
// attachment.
func (l *logEntry) end(err error, notes []byte, took time.Duration) {
	l.Millis = math.Round(float64(took)/float64(time.Millisecond/100)) / 100
	for note := range bytes.Lines(notes) {
		if len(l.Notes) < maxNotes {
			l.Notes = append(l.Notes, bytes.TrimSpace(note))
		}
	}
	if l.Outcome == "" {
		l.Outcome = outcomeOK
	}
	if coded := new(types.Error); errors.As(err, &coded) {
		l.Code = coded.Code
		l.setOutcome(outcomeOfCode(coded.Code), coded.Error(), nil)
	}
	if len(l.Reason) > maxReason {
		l.Reason = l.Reason[:maxReason] + "…"
	}
}

func outcomeOfCode(code uint) string {
	switch code {
	case CodeUnknown:
		return outcomeUnknown
	case types.ErrTryAgainLater, CodeExhausted, CodeRequired, CodeDuplicate, CodeRequested:
		return outcomeRefused
	}
	return outcomeFailed
}

// encode returns the entry as one line of JSON.
func (l *logEntry) encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(l) // strings, numbers and JSON of slog always encode
	return b.Bytes()
}

// DefaultLogFile is where each verb writes its entry unless ipam.logFile says otherwise.
const DefaultLogFile = "/var/log/limpet/ipam.log"

var errLogFull = errors.New("log file is full and cannot be rotated")

// logFile is the file to which every verb on the node appends one line. A fault of the file
// never fails a verb or makes it wait: the file is opened without waiting for a reader,
// locked without waiting for a lock, and takes each line by one write.
type logFile struct {
	path string
	max  int64
}

// append adds a line. At the size limit the file is rotated, and one old file is kept. Where
// that fails, lines are dropped from twice the limit on.
func (l logFile) append(line []byte) error {
	fd, size, err := l.open()
	if err != nil {
		return err
	}
	if size > 0 && size+int64(len(line)) > l.max && l.rotate(fd) == nil {
		_ = unix.Close(fd) // nothing was written
		if fd, size, err = l.open(); err != nil {
			return err
		}
	}
	defer func() { _ = unix.Close(fd) }() // the line is written; a failing close changes nothing
	if size > 0 && size+int64(len(line)) > 2*l.max {
		return fmt.Errorf("append %s: %w", l.path, errLogFull)
	}
	_, err = unix.Write(fd, line)
	return err
}

// open returns a descriptor of the file and its size. It makes the file and its directory where needed. An os.File would
// start the poller of Go's runtime.
func (l logFile) open() (fd int, size int64, err error) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err = unix.Open(l.path, flags, 0o640)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
			return 0, 0, fmt.Errorf("make log directory: %w", err)
		}
		fd, err = unix.Open(l.path, flags, 0o640)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("open log file: %w", err)
	}
	var info unix.Stat_t
	err = unix.Fstat(fd, &info)
	if err == nil && info.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("log file %s: %w", l.path, os.ErrInvalid) // a write to a pipe or device could block
	}
	if err != nil {
		return 0, 0, errors.Join(err, unix.Close(fd))
	}
	return fd, info.Size, nil
}

// rotate renames the file, unless another process has done so since it was opened. The lock
// stays with the renamed file.
func (l logFile) rotate(fd int) error {
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock log file: %w", err)
	}
	var mine, now unix.Stat_t
	if err := unix.Fstat(fd, &mine); err != nil {
		return err
	}
	err := unix.Stat(l.path, &now)
	if errors.Is(err, os.ErrNotExist) || err == nil && (mine.Dev != now.Dev || mine.Ino != now.Ino) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Rename(l.path, l.path+".1")
}
