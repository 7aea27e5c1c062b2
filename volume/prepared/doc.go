// Package prepared keeps prepared cases on disk, so that training reads crops without ever loading
// a whole scan.
//
// Start at [Open]: it opens a folder that `voxsaw prepare` or a [Writer] has made. [Store.Open]
// gives a [Case], whose [Case.Image] and [Case.Labels] read crops; [Store.Records] tells what is
// known of the cases without opening them. How a scan is prepared is a [volume.Preparation]'s
// business; scans are found and read by volume/dataset.
package prepared
