package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mostShown is the longest selector that an error shows.
const mostShown = 256

var operations = []v1beta1.Operation{
	v1beta1.OperationDelete, v1beta1.OperationUpdate, v1beta1.OperationEvict, v1beta1.OperationResize,
}

// Parse reads an annotation that is a field in v1beta1 into a spec. The error names the remedy.
func Parse(key, value string, into *v1beta1.PodUnavailableBudgetSpec) error {
	switch key {
	case AnnotationProtectOperations:
		return parseOperations(value, into)
	case AnnotationProtectTotalReplicas:
		return parseReplicas(value, into)
	case AnnotationIgnoredPodSelector:
		return parseSelector(value, into)
	default:
		return fmt.Errorf("annotation %s is no field of v1beta1", key)
	}
}

func parseOperations(value string, into *v1beta1.PodUnavailableBudgetSpec) error {
	var parsed []v1beta1.Operation
	for word := range strings.SplitSeq(value, ",") {
		o := v1beta1.Operation(word)
		if !slices.Contains(operations, o) || slices.Contains(parsed, o) {
			return fmt.Errorf("must be one or more of %s, each once, separated by commas without blanks", joined(operations))
		}
		parsed = append(parsed, o)
	}
	into.ProtectOperations = parsed
	return nil
}

func joined(list []v1beta1.Operation) string {
	words := make([]string, len(list))
	for i, o := range list {
		words[i] = string(o)
	}
	return strings.Join(words, ",")
}

func parseReplicas(value string, into *v1beta1.PodUnavailableBudgetSpec) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != value {
		return fmt.Errorf("must be a number of 1 or more, such as 10")
	}
	into.ProtectTotalReplicas = new(int32(n))
	return nil
}

func parseSelector(value string, into *v1beta1.PodUnavailableBudgetSpec) error {
	var parsed metav1.LabelSelector
	if err := json.Unmarshal([]byte(value), &parsed); err != nil {
		return fmt.Errorf(`must be a label selector as JSON, such as {"matchLabels":{"app":"web"}}: %w`, err)
	}
	text, err := json.Marshal(&parsed)
	if err != nil {
		return fmt.Errorf("encode selector: %w", err)
	}
	switch {
	case string(text) == value:
	case len(text) > mostShown:
		return fmt.Errorf("must be written without blanks and unknown fields, in the order matchLabels, matchExpressions")
	default:
		return fmt.Errorf("must be written as %s", text)
	}
	into.IgnoredPodSelector = &parsed
	return nil
}

// readable reports whether an annotation becomes a field.
func readable(key, value string) bool {
	return Parse(key, value, &v1beta1.PodUnavailableBudgetSpec{}) == nil
}

// read sets the fields of a spec from annotations that are readable.
func read(fields map[string]string, into *v1beta1.PodUnavailableBudgetSpec) {
	for key, value := range fields {
		_ = Parse(key, value, into) // they are readable
	}
}

// write returns the annotations that stand for the fields of a spec.
func write(s *v1beta1.PodUnavailableBudgetSpec) (map[string]string, error) {
	fields := map[string]string{}
	if len(s.ProtectOperations) > 0 {
		fields[AnnotationProtectOperations] = joined(s.ProtectOperations)
	}
	if s.ProtectTotalReplicas != nil {
		fields[AnnotationProtectTotalReplicas] = strconv.Itoa(int(*s.ProtectTotalReplicas))
	}
	if s.IgnoredPodSelector != nil {
		text, err := json.Marshal(s.IgnoredPodSelector)
		if err != nil {
			return nil, fmt.Errorf("encode ignoredPodSelector: %w", err)
		}
		fields[AnnotationIgnoredPodSelector] = string(text)
	}
	return fields, nil
}
