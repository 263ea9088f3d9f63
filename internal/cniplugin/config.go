package cniplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/types"

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
	} `json:"runtimeConfig"`
	IPAM *ipamConf `json:"ipam"`
}

type ipamConf struct {
	rangeConf                // the one range of old configurations
	Ranges    [][]rangeConf  `json:"ranges"`
	Routes    []*types.Route `json:"routes"`
	DataDir   string         `json:"dataDir"`

	MaxReservation  string `json:"maxReservation"`
	OnExhaustion    string `json:"onExhaustion"`
	PredecessorWait string `json:"predecessorWait"`
	LockWait        string `json:"lockWait"`
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
	routes          []*types.Route
	annotations     map[string]string
	prevResult      json.RawMessage
	maxReservation  time.Duration
	predecessorWait time.Duration
	lockWait        time.Duration
	refuse          bool // on exhaustion, rather than reclaim a reservation
}

// parseAdd reads a configuration in full: what ADD needs.
func parseAdd(stdin []byte) (*config, error) {
	conf, c, err := parse(stdin)
	if err != nil {
		return nil, err
	}
	if conf.IPAM == nil {
		return nil, fmt.Errorf("IPAM config missing 'ipam' key: %w", errConfig)
	}
	if err := c.settings(conf.IPAM); err != nil {
		return nil, err
	}
	c.routes = conf.IPAM.Routes
	if c.sets, err = rangeSets(conf.IPAM); err != nil {
		return nil, fmt.Errorf("ipam.ranges: %w: %w", err, errConfig)
	}
	return c, nil
}

// parseEnd reads what the other verbs need, which is only where the state is: they
// must work with a configuration that would not do for an ADD.
func parseEnd(stdin []byte) (*config, error) {
	conf, c, err := parse(stdin)
	if err != nil {
		return nil, err
	}
	if conf.IPAM != nil {
		_ = c.settings(conf.IPAM) // a bad setting is ADD's to report; the default serves here
	}
	return c, nil
}

func parse(stdin []byte) (*netConf, *config, error) {
	var conf netConf
	if err := json.Unmarshal(stdin, &conf); err != nil {
		var field *json.UnmarshalTypeError
		if errors.As(err, &field) {
			return nil, nil, fmt.Errorf("%s: a %s is not allowed here: %w", field.Field, field.Value, errConfig)
		}
		return nil, nil, types.NewError(types.ErrDecodingFailure, "decode network configuration: "+err.Error(), "")
	}
	if conf.CNIVersion == "" {
		conf.CNIVersion = "0.1.0"
	}
	c := &config{
		cniVersion: conf.CNIVersion, network: conf.Name, annotations: conf.RuntimeConfig.Annotations, prevResult: conf.PrevResult,
		dataDir: persistence.DefaultDir, maxReservation: reservation.DefaultMaxRetain,
		predecessorWait: DefaultPredecessorWait, lockWait: persistence.DefaultLockWait,
	}
	if conf.IPAM != nil && conf.IPAM.DataDir != "" {
		c.dataDir = filepath.Clean(conf.IPAM.DataDir)
	}
	return &conf, c, nil
}

func (c *config) settings(i *ipamConf) error {
	switch i.OnExhaustion {
	case "", "reclaim":
	case "refuse":
		c.refuse = true
	default:
		return fmt.Errorf("ipam.onExhaustion: %q is neither \"reclaim\" nor \"refuse\": %w", i.OnExhaustion, errConfig)
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

// rangeSets puts the one range of old configurations in front of the others, as
// host-local does.
func rangeSets(i *ipamConf) ([]ipam.Set, error) {
	all := i.Ranges
	if i.Subnet != "" {
		all = append([][]rangeConf{{i.rangeConf}}, all...)
	}
	if len(all) == 0 {
		return nil, errors.New("no IP ranges specified")
	}
	sets := make([]ipam.Set, 0, len(all))
	for n, ranges := range all {
		set := make(ipam.Set, 0, len(ranges))
		for m, r := range ranges {
			parsed, err := r.parse()
			if err != nil {
				return nil, fmt.Errorf("[%d][%d].%w", n, m, err)
			}
			set = append(set, parsed)
		}
		sets = append(sets, set)
	}
	return ipam.CompleteSets(sets)
}

func (r rangeConf) parse() (ipam.Range, error) {
	var parsed ipam.Range
	subnet, err := netip.ParsePrefix(r.Subnet)
	if err != nil {
		return parsed, fmt.Errorf("subnet: %q is not a network in CIDR notation", r.Subnet)
	}
	parsed.Subnet = netip.PrefixFrom(subnet.Addr().Unmap(), subnet.Bits())
	for _, a := range []struct {
		key, value string
		to         *netip.Addr
	}{{"rangeStart", r.RangeStart, &parsed.Start}, {"rangeEnd", r.RangeEnd, &parsed.End}, {"gateway", r.Gateway, &parsed.Gateway}} {
		if a.value == "" {
			continue
		}
		addr, err := netip.ParseAddr(a.value)
		if err != nil {
			return parsed, fmt.Errorf("%s: %q is not an IP address", a.key, a.value)
		}
		*a.to = addr.Unmap()
	}
	return parsed, nil
}
