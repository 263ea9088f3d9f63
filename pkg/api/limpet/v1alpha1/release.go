package v1alpha1

// releaseLayout is the end of a reservation as a label can hold it.
const releaseLayout = "20060102T150405Z"

// Releases returns the value of LabelRelease that releases this reservation: its end, as 20261123T084500Z. A later
// reservation of the same pod name ends at another time, so the label never means the later one. The result is
// empty for addresses that are not reserved: a pod that runs keeps them.
func (s IPReservationStatus) Releases() string {
	if s.State != IPReserved || s.Until == nil {
		return ""
	}
	return s.Until.UTC().Format(releaseLayout)
}
