package reservation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// RetainAnnotation asks, on a pod, for its addresses to stay reserved after
	// its end. The value is a whole number of minutes.
	RetainAnnotation = "io.kubernetes.cri/reserved-ip-duration"
	// ModeAnnotation says, on a pod, what to do when its own addresses cannot be
	// had: "required" fails, "preferred" (the default) takes others.
	ModeAnnotation = "limpet.dev/retention"
	// DefaultMaxRetain caps what a pod may ask for, unless configured otherwise.
	DefaultMaxRetain = 24 * time.Hour
)

// RetentionRequest is what a pod's annotations ask for.
type RetentionRequest struct {
	Retain time.Duration
	Mode   Mode
}

// ParseRetentionRequest reads the request from a pod's annotations. A value that cannot be
// honored never fails the pod: it is replaced by none or by limit, and a warning
// names the annotation, what is wrong and what happens instead.
func ParseRetentionRequest(annotations map[string]string, limit time.Duration) (request RetentionRequest, warnings []string) {
	if v, ok := annotations[RetainAnnotation]; ok {
		retain, warning := ParseRetain(v, limit)
		request.Retain = retain
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	if v, ok := annotations[ModeAnnotation]; ok {
		mode, warning := ParseMode(v)
		request.Mode = mode
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return request, warnings
}

// ParseRetain reads the value of RetainAnnotation. It returns 0 for a value that
// is not a whole number of minutes or is negative, and limit for one above it,
// each with a warning.
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

// ParseMode reads the value of ModeAnnotation; an unknown one means Preferred,
// with a warning.
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

// shorten keeps a value from filling logs and answers; annotations can be 256 KiB.
func shorten(value string) string {
	const most = 64
	if len(value) <= most {
		return value
	}
	return value[:most] + "…"
}
