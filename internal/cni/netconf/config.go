package netconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// DefaultPredecessorWait bounds how long a rebuilt pod waits for the network namespace of
// its predecessor to go, from the first refusal.
const DefaultPredecessorWait = 60 * time.Second

// maxName is the longest name of a network. It is far longer than any real name.
const maxName = 4096

// DefaultAddWait bounds how long one ADD waits for the network namespace of the predecessor to go, before it answers
// that the runtime should try again. A kubelet tries again after 10 seconds or more.
const DefaultAddWait = 10 * time.Second

// maxAddWait is the longest AddWait. A kubelet gives a sandbox four minutes.
const maxAddWait = time.Minute

// stateFiles is how the names of the files of the state begin, which are in ipam.dataDir too.
const stateFiles = "limpet."

// ErrConfig is wrapped by every error about the network configuration.
var ErrConfig = errors.New("invalid network configuration")

const (
	// DefaultLogMaxBytes is the size at which the log file is rotated.
	DefaultLogMaxBytes = 10 << 20
	// NoLog is the value of ipam.logFile that switches the log off.
	NoLog = "none"
)

// Config is a network configuration that was understood.
type Config struct {
	CNIVersion string
	Network    string
	// DataDir is the absolute directory that ipam.dataDir names; "" without that key.
	DataDir string
	Sets    []ipam.Set
	// Requested are the addresses asked for by number, in the order of the configuration.
	Requested []netip.Addr
	Routes    []*types.Route
	// ResolvConf is the path of the file with the DNS settings; "" for none.
	ResolvConf string
	// Annotations are those of the pod; nil when neither the runtime nor args.cni names any.
	Annotations     map[string]string
	PrevResult      json.RawMessage
	MaxReservation  time.Duration
	PredecessorWait time.Duration
	// AddWait bounds how long one ADD waits for the end of a predecessor; 0 for no wait.
	AddWait time.Duration
	// LockWait bounds the wait for the state; 0 leaves the bound to the store.
	LockWait time.Duration
	// SharePercent is the part of the pool that reservations may hold, and Quota bounds those of one namespace.
	SharePercent int
	Quota        reservation.Quota
	// ReleaseDelay is how long a released address is not given to another owner while others are free.
	ReleaseDelay time.Duration
	// Refuse tells that no reservation gives way when the pool is exhausted.
	Refuse bool
	// Node is the name of the node; "" if it is not known.
	Node string
	// Mirror tells to keep host-local's files beside the state.
	Mirror bool
	// Follows tells that the agent lends addresses of this network.
	Follows bool
	// Segment is the interface of the node in the L2 segment that the nodes share; "" where they share none.
	Segment string

	bridge, defaultGateway bool // the interface plugin is bridge, and gives the pod a default route
}

// Input is a network configuration as a verb gets it, decoded once for all who read it.
type Input struct {
	raw  []byte
	keys file
	err  error
}

// Decode reads the JSON. The functions that need the configuration return its errors.
func Decode(stdin []byte) *Input {
	in := &Input{raw: stdin}
	in.err = json.Unmarshal(stdin, &in.keys)
	if in.keys.CNIVersion == "" {
		in.keys.CNIVersion = "0.1.0"
	}
	if string(in.keys.PrevResult) == "null" {
		in.keys.PrevResult = nil
	}
	return in
}

// Head returns the version of the specification and the name of the network, unless the JSON is wrong anywhere.
func (in *Input) Head() (version, name string, err error) {
	return in.keys.CNIVersion, in.keys.Name, in.err
}

// file returns the keys. A key of the wrong type counts as missing.
func (in *Input) file() (*file, error) {
	if in.err != nil && !errors.As(in.err, new(*json.UnmarshalTypeError)) {
		return nil, types.NewError(types.ErrDecodingFailure, "decode network configuration: "+in.err.Error(), "")
	}
	return &in.keys, nil
}

// ParseAdd reads a configuration in full, as ADD needs it.
func (in *Input) ParseAdd() (*Config, error) {
	f, err := in.file()
	if err != nil {
		return nil, err
	}
	if field := new(json.UnmarshalTypeError); errors.As(in.err, &field) {
		return nil, fmt.Errorf("%s: a JSON %s is not allowed here: %w", field.Field, field.Value, ErrConfig)
	}
	if f.IPAM == nil {
		return nil, fmt.Errorf("IPAM config missing 'ipam' key: %w", ErrConfig)
	}
	if len(f.Name) > maxName {
		return nil, fmt.Errorf("name: a network with a name of %d bytes: %w", len(f.Name), ErrConfig)
	}
	c := newConfig(f)
	if f.IPAM.MirrorHostLocal && !c.Mirror {
		return nil, fmt.Errorf("ipam.mirrorHostLocal: the directory of network %q in ipam.dataDir has the name of a file of the state; rename the network: %w", f.Name, ErrConfig)
	}
	if err := c.readSettings(f.IPAM); err != nil {
		return nil, err
	}
	if c.Routes, err = parseRoutes(f.IPAM.Routes); err != nil {
		return nil, err
	}
	if c.Sets, err = rangeSetsOfAdd(f, in.raw); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrConfig)
	}
	if c.Requested, err = requestedIPs(f); err != nil {
		return nil, err
	}
	if f.IPAM.SharedNetwork {
		err = c.readSegment(f)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ParseStatus reads a configuration in full, as ADD does. A configuration without ranges passes if the runtime gives them
// to each ADD: it gives none to STATUS.
func (in *Input) ParseStatus() (*Config, error) {
	c, err := in.ParseAdd()
	var given struct {
		IPRanges bool `json:"ipRanges"`
	}
	if errors.Is(err, errNoRanges) && json.Unmarshal(in.keys.Capabilities, &given) == nil && given.IPRanges {
		return in.ParseEnd()
	}
	return c, err
}

// ParseEnd reads what the verbs other than ADD need, which is only where the state is. A
// configuration that ADD refuses must do for them.
func (in *Input) ParseEnd() (*Config, error) {
	f, err := in.file()
	if err != nil {
		return nil, err
	}
	c := newConfig(f)
	if f.IPAM != nil {
		_ = c.readSettings(f.IPAM) // ADD reports a bad setting; the default serves here
		c.Sets, _ = rangeSets(f)   // only for the order of a pod's addresses
	}
	return c, nil
}

func newConfig(f *file) *Config {
	c := &Config{
		CNIVersion: f.CNIVersion, Network: f.Name, Annotations: f.annotations(), PrevResult: f.PrevResult,
		MaxReservation: reservation.DefaultMaxRetain, PredecessorWait: DefaultPredecessorWait, AddWait: DefaultAddWait, SharePercent: reservation.DefaultSharePercent,
		ReleaseDelay: reservation.DefaultReleaseDelay, bridge: f.Type == "bridge", defaultGateway: f.IsDefaultGateway,
	}
	if f.IPAM == nil {
		return c
	}
	c.Mirror, c.ResolvConf, c.Node = f.IPAM.MirrorHostLocal, f.IPAM.ResolvConf, f.IPAM.Node
	if filepath.IsAbs(f.IPAM.DataDir) { // ADD refuses a relative path
		c.DataDir = filepath.Clean(f.IPAM.DataDir)
		c.Mirror = c.Mirror && !strings.HasPrefix(f.Name, stateFiles)
	}
	return c
}

// readSettings reads the keys that host-local does not have. It stops at the first bad one.
func (c *Config) readSettings(keys *ipamKeys) error {
	switch keys.OnExhaustion {
	case "", "reclaim":
	case "refuse":
		c.Refuse = true
	default:
		return fmt.Errorf("ipam.onExhaustion: %q is neither \"reclaim\" nor \"refuse\": %w", keys.OnExhaustion, ErrConfig)
	}
	if err := c.readBounds(keys); err != nil {
		return err
	}
	if keys.DataDir != "" && !filepath.IsAbs(keys.DataDir) {
		return fmt.Errorf("ipam.dataDir: %q is not an absolute path: %w", keys.DataDir, ErrConfig)
	}
	if keys.LogFile != "" {
		if err := checkLogFile(keys.LogFile); err != nil {
			return fmt.Errorf("ipam.logFile: %q is %w: %w", keys.LogFile, err, ErrConfig)
		}
	}
	if keys.LogMaxBytes != nil && *keys.LogMaxBytes <= 0 {
		return fmt.Errorf("ipam.logMaxBytes: %d is not a positive number of bytes: %w", *keys.LogMaxBytes, ErrConfig)
	}
	return c.readDurations(keys)
}

// readBounds reads how many reservations there may be.
func (c *Config) readBounds(keys *ipamKeys) error {
	if p := keys.MaxReservedPercent; p != nil {
		if *p < 0 || *p > 100 {
			return fmt.Errorf("ipam.maxReservedPercent: %d is not a percentage from 0 to 100: %w", *p, ErrConfig)
		}
		c.SharePercent = *p
	}
	if n := keys.MaxReservedPerNamespace; n != nil {
		if *n <= 0 {
			return fmt.Errorf("ipam.maxReservedPerNamespace: %d is not a positive number of pods: %w", *n, ErrConfig)
		}
		c.Quota.Pods = *n
	}
	if p := keys.MaxReservedPercentPerNamespace; p != nil {
		if *p < 1 || *p > 100 {
			return fmt.Errorf("ipam.maxReservedPercentPerNamespace: %d is not a percentage from 1 to 100: %w", *p, ErrConfig)
		}
		c.Quota.Percent = *p
	}
	return nil
}

// parseRoutes reads ipam.routes.
func parseRoutes(raw json.RawMessage) (routes []*types.Route, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &routes); err != nil {
		return nil, fmt.Errorf("ipam.routes: %w: %w", err, ErrConfig)
	}
	if slices.Contains(routes, nil) { // the library would panic on it
		return nil, fmt.Errorf("ipam.routes: null is no route: %w", ErrConfig)
	}
	return routes, nil
}

func (c *Config) readDurations(keys *ipamKeys) error {
	for _, d := range []struct {
		key, value  string
		least, most time.Duration // 0 where zero means none
		to          *time.Duration
	}{
		{"maxReservation", keys.MaxReservation, 1, math.MaxInt64, &c.MaxReservation},
		{"predecessorWait", keys.PredecessorWait, 1, math.MaxInt64, &c.PredecessorWait},
		{"lockWait", keys.LockWait, 1, math.MaxInt64, &c.LockWait},
		{"releaseDelay", keys.ReleaseDelay, 0, math.MaxInt64, &c.ReleaseDelay},
		{"addWait", keys.AddWait, 0, maxAddWait, &c.AddWait},
	} {
		if d.value == "" {
			continue
		}
		v, err := time.ParseDuration(d.value)
		switch {
		case d.least > 0 && (err != nil || v < d.least):
			return fmt.Errorf("ipam.%s: %q is not a positive duration such as \"60s\" or \"24h\": %w", d.key, d.value, ErrConfig)
		case err != nil || v < 0:
			return fmt.Errorf("ipam.%s: %q is not a duration such as \"30s\", or \"0s\" for none: %w", d.key, d.value, ErrConfig)
		case v > d.most:
			return fmt.Errorf("ipam.%s: %q is longer than %s: %w", d.key, d.value, d.most, ErrConfig)
		}
		*d.to = v
	}
	return nil
}

// Log is what the configuration says about the log file.
type Log struct {
	Network string
	// Path is ipam.logFile; "" where the key is missing or wrong.
	Path     string
	MaxBytes int64
}

// Log returns what the log needs, even from a configuration that the verb refuses.
func (in *Input) Log() Log {
	l := Log{Network: in.keys.Name, MaxBytes: DefaultLogMaxBytes}
	if in.keys.IPAM == nil {
		return l
	}
	if checkLogFile(in.keys.IPAM.LogFile) == nil {
		l.Path = in.keys.IPAM.LogFile
	}
	if most := in.keys.IPAM.LogMaxBytes; most != nil && *most > 0 {
		l.MaxBytes = *most
	}
	return l
}

// checkLogFile refuses a path that would depend on the directory in which the runtime runs.
func checkLogFile(path string) error {
	if path == "" || path == NoLog || filepath.IsAbs(path) {
		return nil
	}
	return errors.New("neither an absolute path nor \"none\"")
}
