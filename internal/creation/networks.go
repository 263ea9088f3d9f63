package creation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// maxSelection bounds an annotation that selects networks, before and after it is rewritten. 80 networks need less.
const maxSelection = 16 << 10

var (
	errTooLong   = errors.New("it is too long")
	errSelection = errors.New("it is not a list of networks")
)

// askNetworks adds what a pod asks for its addresses to the networks that it selects: Multus passes cni-args on to the
// IPAM plugin, but no annotations. It returns warnings.
func askNetworks(facts Facts, patch *podpatch.Patch) (warnings []string) {
	args := map[string]string{}
	asks := facts.Retention.On(false, reservation.DefaultMaxRetain) // nothing follows there
	if retain := asks.Retain; retain > 0 {
		args[reservation.RetainAnnotation] = strconv.FormatInt(int64((retain+time.Minute-1)/time.Minute), 10)
	}
	if asks.Mode == reservation.Required {
		args[reservation.ModeAnnotation] = reservation.Required.String()
	}
	if owner := reservation.OwnerName("", facts.Pod.Annotations); owner != "" {
		args[reservation.OwnerAnnotation] = owner
	}
	for _, key := range reservation.NetworkSelections {
		value := facts.Pod.Annotations[key]
		if value == "" || bytes.Contains(patch.Strategic, []byte(key)) { // a subset's patch has the last word
			continue
		}
		asking, err := withArgs(value, args)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("annotation %s: %v; without cni-args, addresses of these networks are reserved only some seconds after the start", key, err))
			continue
		}
		if patch.Annotations == nil {
			patch.Annotations = map[string]string{}
		}
		patch.Annotations[key] = asking
	}
	return warnings
}

// withArgs returns a selection of networks as JSON, each with these cni-args. Those that a network has stay, but for an
// owner, which may be another's. The owner of a network that refers to an IPAMClaim is that claim.
func withArgs(value string, args map[string]string) (string, error) {
	if len(value) > maxSelection {
		return "", errTooLong
	}
	networks, err := parseSelection(value)
	if err != nil {
		return "", err
	}
	for _, network := range networks {
		if network == nil {
			return "", errSelection
		}
		has := map[string]json.RawMessage{}
		if given := network["cni-args"]; given != nil && json.Unmarshal(given, &has) != nil {
			return "", errSelection
		}
		all := map[string]any{}
		for key, arg := range args {
			all[key] = arg
		}
		for key, arg := range has {
			if !strings.EqualFold(key, reservation.OwnerAnnotation) {
				all[key] = arg
			}
		}
		if owner := reservation.ClaimOwner(claimOf(network)); owner != "" {
			all[reservation.OwnerAnnotation] = owner
		}
		if network["cni-args"], err = json.Marshal(all); err != nil {
			return "", fmt.Errorf("encode cni-args: %w", err)
		}
	}
	asking, err := json.Marshal(networks)
	if len(asking) > maxSelection {
		err = errTooLong
	}
	return string(asking), err
}

// claimKey is the key by which a network that a pod selects refers to an IPAMClaim.
const claimKey = "ipam-claim-reference"

// Claim returns the first IPAMClaim that the networks of a pod refer to; "" for none.
func Claim(pod *corev1.Pod) string {
	value := pod.Annotations[reservation.NetworkSelections[0]]
	if !refersToClaim(pod) || len(value) > maxSelection {
		return ""
	}
	networks, err := parseSelection(value)
	if err != nil {
		return ""
	}
	for _, network := range networks {
		if claim := claimOf(network); reservation.ClaimOwner(claim) != "" {
			return claim
		}
	}
	return ""
}

// claimOf returns the IPAMClaim to which a network refers; "" for none.
func claimOf(network map[string]json.RawMessage) (claim string) {
	if json.Unmarshal(network[claimKey], &claim) != nil || len(validation.IsDNS1123Subdomain(claim)) > 0 {
		return ""
	}
	return claim
}

// parseSelection reads both forms that Multus knows: a list of objects, and names separated by commas.
func parseSelection(value string) (networks []map[string]json.RawMessage, err error) {
	if !strings.ContainsAny(value, `[{"`) {
		if value, err = spellOut(value); err != nil {
			return nil, err
		}
	}
	if json.Unmarshal([]byte(value), &networks) != nil {
		return nil, errSelection
	}
	return networks, nil
}

// spellOut returns NAMESPACE/NAME@INTERFACE, of which namespace and interface may be missing, and further ones after
// commas, as a list of objects.
func spellOut(names string) (string, error) {
	var networks []map[string]string
	for item := range strings.SplitSeq(names, ",") {
		namespace, rest, found := strings.Cut(item, "/")
		if !found {
			namespace, rest = "", item
		}
		name, ifName, _ := strings.Cut(rest, "@")
		network := map[string]string{"namespace": namespace, "name": name, "interface": ifName}
		for key, text := range network {
			text = strings.TrimSpace(text)
			if network[key] = text; text == "" && key != "name" {
				delete(network, key)
			} else if key != "interface" && len(validation.IsDNS1123Label(text)) > 0 || strings.ContainsAny(text, "/@ \t\n\v\f\r") {
				return "", errSelection
			}
		}
		networks = append(networks, network)
	}
	data, err := json.Marshal(networks)
	return string(data), err
}
