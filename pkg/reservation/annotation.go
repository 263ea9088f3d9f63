package reservation

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// NetworkSelections are the annotations by which a pod selects networks of Multus: secondary ones, and another default
// network. The cni-args of a network may have RetainAnnotation and ModeAnnotation as keys.
var NetworkSelections = []string{"k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network"}

// ParseRetain reads the value of RetainAnnotation. A value that is negative or not a whole number of minutes becomes 0,
// a value above the limit becomes the limit, each with a warning.
func ParseRetain(value string, limit time.Duration) (retain time.Duration, warning string) {
	minutes, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case minutes > int64(limit/time.Minute): // ParseInt returns the largest number for one out of range
		return limit, fmt.Sprintf("annotation %s: %q exceeds the maximum of %d minutes; the maximum is used",
			RetainAnnotation, shorten(value), int64(limit/time.Minute))
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, fmt.Sprintf("annotation %s: %q is not a whole number of minutes; the IP will not be reserved", RetainAnnotation, shorten(value))
	case minutes < 0:
		return 0, fmt.Sprintf("annotation %s: %q is negative; the IP will not be reserved", RetainAnnotation, shorten(value))
	}
	return time.Duration(minutes) * time.Minute, ""
}

// ParseKeep reads the value of KeepAnnotation, a Go duration, which is rounded up to whole minutes. A value that is
// negative or no duration becomes 0, a value above the limit becomes the limit, each with a warning.
func ParseKeep(value string, limit time.Duration) (retain time.Duration, warning string) {
	retain, err := time.ParseDuration(shorten(value))
	switch {
	case err != nil || retain < 0:
		return 0, fmt.Sprintf("annotation %s: %q is no duration; remedy: a value such as \"10m\"", KeepAnnotation, shorten(value))
	case retain > limit:
		return limit, fmt.Sprintf("annotation %s: %q exceeds the maximum of %s; the maximum is used", KeepAnnotation, shorten(value), limit)
	}
	return min((retain + time.Minute - 1).Truncate(time.Minute), limit), ""
}

// Asks reports whether a pod's annotations say for how long its addresses are kept, even if not at all.
func Asks(annotations map[string]string) bool {
	_, retain := annotations[RetainAnnotation]
	_, keep := annotations[KeepAnnotation]
	return retain || keep
}

// ParseMode reads the value of ModeAnnotation. An unknown value means Preferred, with a warning.
func ParseMode(value string) (mode Mode, warning string) {
	switch value {
	case Required.String():
		return Required, ""
	case Preferred.String():
		return Preferred, ""
	}
	return Preferred, fmt.Sprintf("annotation %s: %q is neither %q nor %q; %q is used",
		ModeAnnotation, shorten(value), Required, Preferred, Preferred)
}

// ShortRequest returns annotations with short values for RetainAnnotation, KeepAnnotation and ModeAnnotation, from which
// the same is read as from the original ones. It serves those who keep the annotations of many pods.
func ShortRequest(annotations map[string]string) map[string]string {
	retain, keep, mode := annotations[RetainAnnotation], annotations[KeepAnnotation], annotations[ModeAnnotation]
	if max(len(retain), len(keep), len(mode)) <= longestValue {
		return annotations
	}
	short := maps.Clone(annotations)
	if len(mode) > longestValue {
		short[ModeAnnotation] = shorten(mode)
	}
	if len(keep) > longestValue {
		short[KeepAnnotation] = shorten(keep)
	}
	if len(retain) > longestValue {
		short[RetainAnnotation] = shorten(retain)
		minutes, err := strconv.ParseInt(strings.TrimSpace(retain), 10, 64)
		if err == nil || errors.Is(err, strconv.ErrRange) {
			short[RetainAnnotation] = strconv.FormatInt(minutes, 10) // the first characters alone can be another number
		}
	}
	return short
}

// longestValue is the length to which values are cut.
const longestValue = 64

// shorten cuts a value for logs and answers; annotations can be 256 KiB long.
func shorten(value string) string {
	if len(value) <= longestValue {
		return value
	}
	return value[:longestValue] + "…"
}
