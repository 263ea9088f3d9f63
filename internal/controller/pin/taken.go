package pin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// takenBy returns another pod that has one of some addresses, which ips lists with commas;
// an empty name when there is none.
func takenBy(ctx context.Context, r client.Reader, pod *corev1.Pod, ips string) (client.ObjectKey, error) {
	for ip := range strings.SplitSeq(ips, ",") {
		var list corev1.PodList
		if err := r.List(ctx, &list, client.MatchingFields{indexIP: ip}, client.UnsafeDisableDeepCopy); err != nil {
			return client.ObjectKey{}, fmt.Errorf("list pods with address %s: %w", ip, err)
		}
		for i := range list.Items {
			if o := client.ObjectKeyFromObject(&list.Items[i]); o != client.ObjectKeyFromObject(pod) {
				return o, nil
			}
		}
	}
	return client.ObjectKey{}, nil
}
