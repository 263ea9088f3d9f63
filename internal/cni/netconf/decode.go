package netconf

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/containernetworking/cni/pkg/types"
)

// file is the part of the network configuration that concerns an IPAM plugin. A delegating
// plugin hands over its whole own configuration.
type file struct {
	CNIVersion    string          `json:"cniVersion"`
	Name          string          `json:"name"`
	PrevResult    json.RawMessage `json:"prevResult"`
	RuntimeConfig struct {
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
		IPs         []string          `json:"ips"`
		IPRanges    [][]rangeKeys     `json:"ipRanges"`
	} `json:"runtimeConfig"`
	Args struct {
		CNI struct {
			IPs []string `json:"ips"`
		} `json:"cni"`
	} `json:"args"`
	IPAM *ipamKeys `json:"ipam"`
}

// ipamKeys are the keys under ipam.
type ipamKeys struct {
	rangeKeys                  // the one range of old configurations
	Ranges     [][]rangeKeys   `json:"ranges"`
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

// rangeKeys are the keys of one range.
type rangeKeys struct {
	Subnet     string `json:"subnet"`
	RangeStart string `json:"rangeStart"`
	RangeEnd   string `json:"rangeEnd"`
	Gateway    string `json:"gateway"`
}

// decode reads the JSON. With a *json.UnmarshalTypeError every key of the right type is
// decoded all the same.
func decode(stdin []byte) (*file, error) {
	var f file
	err := json.Unmarshal(stdin, &f)
	if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, types.NewError(types.ErrDecodingFailure, "decode network configuration: "+err.Error(), "")
	}
	if f.CNIVersion == "" {
		f.CNIVersion = "0.1.0"
	}
	if string(f.PrevResult) == "null" {
		f.PrevResult = nil
	}
	return &f, err
}

// Keys is the type whose JSON keys docs/configuration.md documents.
func Keys() reflect.Type { return reflect.TypeFor[file]() }
