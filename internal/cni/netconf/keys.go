package netconf

import (
	"encoding/json"
	"reflect"
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

	MaxReservation                 string `json:"maxReservation"`
	MaxReservedPercent             *int   `json:"maxReservedPercent"`
	MaxReservedPerNamespace        *int64 `json:"maxReservedPerNamespace"`
	MaxReservedPercentPerNamespace *int   `json:"maxReservedPercentPerNamespace"`
	OnExhaustion                   string `json:"onExhaustion"`
	ReleaseDelay                   string `json:"releaseDelay"`
	PredecessorWait                string `json:"predecessorWait"`
	AddWait                        string `json:"addWait"`
	LockWait                       string `json:"lockWait"`
	MirrorHostLocal                bool   `json:"mirrorHostLocal"`
	LogFile                        string `json:"logFile"`
	LogMaxBytes                    *int64 `json:"logMaxBytes"`
}

// rangeKeys are the keys of one range.
type rangeKeys struct {
	Subnet     string `json:"subnet"`
	RangeStart string `json:"rangeStart"`
	RangeEnd   string `json:"rangeEnd"`
	Gateway    string `json:"gateway"`
}

// Keys is the type whose JSON keys docs/configuration.md documents.
func Keys() reflect.Type { return reflect.TypeFor[file]() }
