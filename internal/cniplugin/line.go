package cniplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// The outcomes of verbs in the log file, apart from those of errors.
const (
	outcomeNew        = "new"        // ADD: the next free addresses
	outcomeReclaimed  = "reclaimed"  // ADD: a reservation gave way, a note says whose
	outcomeClaimed    = "claimed"    // ADD: the addresses that the pod had before
	outcomeReserved   = "reserved"   // DEL
	outcomeFreed      = "freed"      // DEL
	outcomeUnknown    = "unknown"    // DEL and CHECK: no such attachment
	outcomeUnrepaired = "unrepaired" // DEL: the state is broken or cannot be written, the pod ended without it
	outcomeEnded      = "ended"      // GC
	outcomeOK         = "ok"
	outcomeRefused    = "refused" // by a rule: code 11, or one of ours
	outcomeFailed     = "failed"  // by the configuration or the machine
)

// A line stays readable, and far below what one write can take.
const (
	maxReason = 2048
	maxNotes  = 32
)

// line is what one verb writes to the log file.
type line struct {
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

// says notes how the verb went, unless it fails later.
func (l *line) says(outcome, reason string, addrs []netip.Addr) {
	l.Outcome, l.Reason, l.Addresses = outcome, reason, addrs
}

// logged runs a verb for skel. It works on a copy of the plugin, whose line is this
// verb's and whose warnings go into that line too.
func (p *Plugin) logged(name string, verb func(*Plugin, *skel.CmdArgs) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		network, file := p.logOf(args.StdinData)
		start := p.Now()
		own := *p
		own.line = newLine(name, network, args, start)
		var notes bytes.Buffer
		own.Log = slog.New(slog.NewMultiHandler(p.Log.Handler(), slog.NewJSONHandler(&notes, noteOptions)))
		err := coded(func(args *skel.CmdArgs) error { return verb(&own, args) })(args)
		if file.path == noLog || name == "STATUS" && err == nil { // which runtimes ask every few seconds
			return err
		}
		own.line.end(err, notes.Bytes(), p.Now().Since(start))
		_ = file.append(own.line.encode()) // by design: a log is not worth a pod
		return err
	}
}

// LogByHand leaves a line of what a person did, among those of the verbs. Where no verb has
// made the log file, none is wished, or it is elsewhere.
func (p *Plugin) LogByHand(verb string, owner reservation.Owner, containerID string, addrs []netip.Addr, reason string) {
	if _, err := os.Stat(p.LogFile); err != nil {
		return
	}
	l := newLine(verb, owner.Network, &skel.CmdArgs{ContainerID: containerID, IfName: owner.IfName}, p.Now())
	if owner.Named() {
		l.Pod = owner.String()
	}
	l.says(outcomeFreed, reason, addrs)
	_ = logFile{path: p.LogFile, max: DefaultLogMaxBytes}.append(l.encode()) // by design, as with verbs
}

// logOf reads what the log needs of a configuration, which may be one that the verb
// cannot do with.
func (p *Plugin) logOf(stdin []byte) (network string, file logFile) {
	var conf struct {
		Name string `json:"name"`
		IPAM struct {
			LogFile     string `json:"logFile"`
			LogMaxBytes int64  `json:"logMaxBytes"`
		} `json:"ipam"`
	}
	_ = json.Unmarshal(stdin, &conf) // it is the verb's to complain
	file = logFile{path: noLog, max: DefaultLogMaxBytes}
	if p.LogFile != "" {
		file.path = p.LogFile
	}
	if checkLogFile(conf.IPAM.LogFile) == nil && conf.IPAM.LogFile != "" {
		file.path = conf.IPAM.LogFile
	}
	if conf.IPAM.LogMaxBytes > 0 {
		file.max = conf.IPAM.LogMaxBytes
	}
	return conf.Name, file
}

// checkLogFile refuses a path that would depend on where the runtime was started.
func checkLogFile(path string) error {
	if path == "" || path == noLog || filepath.IsAbs(path) {
		return nil
	}
	return errors.New("neither an absolute path nor \"none\"")
}

func newLine(verb, network string, args *skel.CmdArgs, start reservation.Moment) line {
	l := line{
		Time: start.Wall.UTC().Truncate(time.Millisecond), Verb: verb, Network: network,
		Container: args.ContainerID[:min(12, len(args.ContainerID))], IfName: args.IfName,
	}
	if pod, err := parsePod(args.Args); err == nil && pod.K8S_POD_NAME != "" {
		l.Pod = string(pod.K8S_POD_NAMESPACE + "/" + pod.K8S_POD_NAME)
	}
	return l
}

// noteOptions keep a warning to its words: the line has the time.
var noteOptions = &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}}

// end completes the line. A verb that fails has done nothing, whatever it said before.
func (l *line) end(err error, notes []byte, took time.Duration) {
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
		l.says(outcomeOfCode(coded.Code), coded.Error(), nil)
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

// encode returns the line as JSON.
func (l *line) encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(l) // strings, numbers and what slog has encoded
	return b.Bytes()
}
