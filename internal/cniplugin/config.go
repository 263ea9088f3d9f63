package cniplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// netConf is the part of the network configuration that concerns an IPAM plugin.
// A delegating plugin hands over its whole own configuration.
type netConf struct {
	CNIVersion    string          `json:"cniVersion"`
	Name          string          `json:"name"`
	PrevResult    json.RawMessage `json:"prevResult"`
	RuntimeConfig struct {
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
		IPs         []string          `json:"ips"`
		IPRanges    [][]rangeConf     `json:"ipRanges"`
	} `json:"runtimeConfig"`
	Args struct {
		CNI struct {
			IPs []string `json:"ips"`
		} `json:"cni"`
	} `json:"args"`
	IPAM *ipamConf `json:"ipam"`
}

type ipamConf struct {
	rangeConf                  // the one range of old configurations
	Ranges     [][]rangeConf   `json:"ranges"`
	Routes     json.RawMessage `json:"routes"` // has a decoder of its own, which only ADD may fail on
	DataDir    string          `json:"dataDir"`
	ResolvConf string          `json:"resolvConf"`

	MaxReservation     string `json:"maxReservation"`
	MaxReservedPercent *int   `json:"maxReservedPercent"`
	OnExhaustion       string `json:"onExhaustion"`
	PredecessorWait    string `json:"predecessorWait"`
	LockWait           string `json:"lockWait"`
	MirrorHostLocal    bool   `json:"mirrorHostLocal"`
	LogFile            string `json:"logFile"`
	LogMaxBytes        *int64 `json:"logMaxBytes"`
}

type rangeConf struct {
	Subnet     string `json:"subnet"`
	RangeStart string `json:"rangeStart"`
	RangeEnd   string `json:"rangeEnd"`
	Gateway    string `json:"gateway"`
}

// config is a network configuration that was understood.
type config struct {
	cniVersion      string
	network         string
	dataDir         string
	sets            []ipam.Set
	requested       []netip.Addr // addresses asked for by number
	wanted          []netip.Addr // the same by range set; not valid where there is none
	routes          []*types.Route
	dns             types.DNS
	annotations     map[string]string
	prevResult      json.RawMessage
	maxReservation  time.Duration
	predecessorWait time.Duration
	lockWait        time.Duration
	sharePercent    int  // of the pool, which reservations may hold
	refuse          bool // where there is no room, rather than end a reservation
	hostLocal       hostlocal.Dir
	ancestor        hostlocal.Ancestor
	mirror          bool // keep host-local's files beside the state
}

// parseAdd reads a configuration in full: what ADD needs.
func parseAdd(stdin []byte) (*config, error) {
	conf, c, err := parse(stdin)
	if field := new(json.UnmarshalTypeError); errors.As(err, &field) {
		return nil, fmt.Errorf("%s: a JSON %s is not allowed here: %w", field.Field, field.Value, errConfig)
	}
	if err != nil {
		return nil, err
	}
	if conf.IPAM == nil {
		return nil, fmt.Errorf("IPAM config missing 'ipam' key: %w", errConfig)
	}
	if err := c.settings(conf.IPAM); err != nil {
		return nil, err
	}
	if len(conf.IPAM.Routes) > 0 {
		if err := json.Unmarshal(conf.IPAM.Routes, &c.routes); err != nil {
			return nil, fmt.Errorf("ipam.routes: %w: %w", err, errConfig)
		}
		if slices.Contains(c.routes, nil) { // the library would panic on it
			return nil, fmt.Errorf("ipam.routes: null is no route: %w", errConfig)
		}
	}
	if err := checkOldRange(conf, stdin); err != nil {
		return nil, fmt.Errorf("ipam.%w: %w", err, errConfig)
	}
	if c.sets, err = rangeSets(conf); err != nil {
		return nil, fmt.Errorf("%w: %w", err, errConfig)
	}
	if c.requested, err = requestedIPs(conf); err != nil {
		return nil, err
	}
	c.dns, err = readResolvConf(conf.IPAM.ResolvConf)
	return c, err
}

// parseEnd reads what the other verbs need, which is only where the state is: they
// must work with a configuration that would not do for an ADD.
func parseEnd(stdin []byte) (*config, error) {
	conf, c, err := parse(stdin)
	if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) { // a field of the wrong type is passed over
		return nil, err
	}
	if conf.IPAM != nil {
		_ = c.settings(conf.IPAM)   // a bad setting is ADD's to report; the default serves here
		c.sets, _ = rangeSets(conf) // only for the order of a pod's addresses
	}
	return c, nil
}

// parse decodes the configuration. With a *json.UnmarshalTypeError the rest of it is
// decoded all the same.
func parse(stdin []byte) (*netConf, *config, error) {
	var conf netConf
	err := json.Unmarshal(stdin, &conf)
	if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, nil, types.NewError(types.ErrDecodingFailure, "decode network configuration: "+err.Error(), "")
	}
	if conf.CNIVersion == "" {
		conf.CNIVersion = "0.1.0"
	}
	if string(conf.PrevResult) == "null" {
		conf.PrevResult = nil
	}
	c := &config{
		cniVersion: conf.CNIVersion, network: conf.Name, annotations: conf.RuntimeConfig.Annotations, prevResult: conf.PrevResult,
		dataDir: persistence.DefaultDir, maxReservation: reservation.DefaultMaxRetain,
		predecessorWait: DefaultPredecessorWait, lockWait: persistence.DefaultLockWait, sharePercent: reservation.DefaultSharePercent,
	}
	configured := ""
	if conf.IPAM != nil && filepath.IsAbs(conf.IPAM.DataDir) { // ADD refuses any other
		c.dataDir = filepath.Clean(conf.IPAM.DataDir)
		configured = c.dataDir
	}
	neighbours := hostlocal.Root(configured)
	c.hostLocal, c.ancestor = hostlocal.New(filepath.Join(neighbours, conf.Name)), hostlocal.NewAncestor(filepath.Join(neighbours, "reserved"))
	c.mirror = conf.IPAM != nil && conf.IPAM.MirrorHostLocal
	return &conf, c, err
}

func (c *config) settings(i *ipamConf) error {
	switch i.OnExhaustion {
	case "", "reclaim":
	case "refuse":
		c.refuse = true
	default:
		return fmt.Errorf("ipam.onExhaustion: %q is neither \"reclaim\" nor \"refuse\": %w", i.OnExhaustion, errConfig)
	}
	if p := i.MaxReservedPercent; p != nil {
		if *p < 0 || *p > 100 {
			return fmt.Errorf("ipam.maxReservedPercent: %d is not a percentage from 0 to 100: %w", *p, errConfig)
		}
		c.sharePercent = *p
	}
	if i.DataDir != "" && !filepath.IsAbs(i.DataDir) {
		return fmt.Errorf("ipam.dataDir: %q is not an absolute path: %w", i.DataDir, errConfig)
	}
	if err := checkLogFile(i.LogFile); err != nil {
		return fmt.Errorf("ipam.logFile: %q is %w: %w", i.LogFile, err, errConfig)
	}
	if i.LogMaxBytes != nil && *i.LogMaxBytes <= 0 {
		return fmt.Errorf("ipam.logMaxBytes: %d is not a positive number of bytes: %w", *i.LogMaxBytes, errConfig)
	}
	for _, d := range []struct {
		key, value string
		to         *time.Duration
	}{
		{"maxReservation", i.MaxReservation, &c.maxReservation},
		{"predecessorWait", i.PredecessorWait, &c.predecessorWait},
		{"lockWait", i.LockWait, &c.lockWait},
	} {
		if d.value == "" {
			continue
		}
		v, err := time.ParseDuration(d.value)
		if err != nil || v <= 0 {
			return fmt.Errorf("ipam.%s: %q is not a positive duration such as \"60s\" or \"24h\": %w", d.key, d.value, errConfig)
		}
		*d.to = v
	}
	return nil
}
